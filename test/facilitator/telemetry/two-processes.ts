/** One payment whose request one process answers and another one sends: its trace, and its lines in both logs. */
import { expect } from "chai";
import { API_SCOPES } from "turnpike/facilitator";
import { type Address, addressOfKey, type Hex, signDigest, typedDataDigest } from "turnpike/protocol";
import { type Collector, type ReceivedSpan, startCollector } from "../../e2e/support/collector";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, startWorld, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { type Receiver, startReceiver } from "../webhooks/support/receiver";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const PAYEE = testKey("payee") as Hex;

const ROLES = { api: "api", relayer: "relayer", rest: "indexer,renewals,webhooks" } as const;
type Name = keyof typeof ROLES;

describe("a payment in several processes", function () {
  this.timeout(180_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let program: Program;
  let collector: Collector;
  let receiver: Receiver;
  let paymentId: Hex;
  let requestId: string | null;
  const services = {} as Record<Name, ServiceProcess>;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres, blockMs: BLOCK_MS });
    const payer = await world.payer();
    program = buildProgram();
    [collector, receiver] = [await startCollector(), await startReceiver()];
    for (const name of Object.keys(ROLES) as Name[])
      services[name] = await program.start(
        world.env({
          ALLOW_PRIVATE_WEBHOOKS: "true",
          CONFIRMATIONS: "2",
          OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/${name}`,
          OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
          OTEL_BSP_SCHEDULE_DELAY: "50",
        }),
        ROLES[name],
      );
    await subscribeToWebhooks();
    const first = paymentToWire(await world.signPayment());
    const isPaid = async () => (await services.api.client.authorize(first).catch(() => undefined))?.kind === "settled";
    await until(isPaid, "all roles are there, and the blocks are read");
    const signed = await world.signPayment({ payer });
    paymentId = world.idOf(signed);
    const answer = await post(
      "/authorize",
      { signedPayment: paymentToWire(signed) },
      { traceparent: `00-${TRACE}-${PARENT}-01` },
    );
    expect(answer.status).to.equal(200);
    requestId = answer.headers.get("x-request-id");
  });
  after(async () => {
    for (const service of Object.values(services)) await service.stop();
    program?.remove();
    await receiver?.stop();
    await collector?.close();
    await world?.stop();
    await postgres?.stop();
  });

  const post = (path: string, body: unknown, headers: Readonly<Record<string, string>>): Promise<Response> =>
    fetch(services.api.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });

  async function subscribeToWebhooks(): Promise<void> {
    const { client } = services.api;
    const { proofSigners, chainId } = await client.supported();
    const created = await client.createKey({
      ...{ provider: addressOfKey(PAYEE), name: "test", scopes: API_SCOPES, chainId },
      facilitator: proofSigners[0] as Address,
      sign: async (data) => signDigest(typedDataDigest(data), PAYEE),
    });
    if (created.kind === "refused") throw created.error;
    const headers = { authorization: `Bearer ${created.key.key}` };
    expect((await post("/webhook-endpoints", { url: receiver.url }, headers)).status).to.equal(201);
  }

  const inTrace = (): ReceivedSpan[] => collector.spans().filter(({ traceId }) => traceId === TRACE);

  /** The names of a span and of all above it. */
  function pathTo(span: ReceivedSpan): string {
    const parent = inTrace().find(({ spanId }) => spanId === span.parentSpanId);
    const name = `${span.process}: ${span.name}`;
    return parent ? `${name} < ${pathTo(parent)}` : name;
  }

  it("is one trace, with the stages of each process, and the statements and node requests of each stage", async () => {
    const request = "api: POST /authorize";
    const wanted = [
      ...["judge", "bind", "mine", "confirm"].map((stage) => `api: ${stage} payment < ${request}`),
      ...["queue", "submit"].map((stage) => `relayer: ${stage} payment < ${request}`),
      `rest: index payment < ${request}`,
      `api: eth_call < api: judge payment < ${request}`,
      `api: INSERT payments < api: bind payment < ${request}`,
    ];
    const paths = await until(async () => {
      const found = inTrace().map(pathTo);
      return wanted.every((each) => found.includes(each)) && found;
    }, "every process has exported its part").catch(() => inTrace().map(pathTo));
    expect(paths).to.include.members(wanted);
    const stageOf = (name: string) => inTrace().find((span) => span.name === name)?.attributes;
    const transfer = (await world.transfers()).at(-1);
    for (const name of ["queue payment", "submit payment", "index payment"])
      expect(stageOf(name), name).to.include({ "turnpike.transaction": transfer?.transaction });
    expect(stageOf("INSERT payments")).to.deep.equal({
      "db.system.name": "postgresql",
      "db.query.summary": "INSERT payments",
    });
    expect(stageOf("eth_call")).to.deep.equal({ "rpc.system": "jsonrpc", "rpc.method": "eth_call" });
  });

  it("is followed through the logs by its id, from the request to the answer and the webhook", async () => {
    /** As `jq -R 'fromjson? | select(.paymentId == $id)'` prints them. */
    const linesOf = (name: Name): Record<string, unknown>[] =>
      services[name]
        .output()
        .split("\n")
        .flatMap((text) => (text.startsWith("{") ? [JSON.parse(text)] : []))
        .filter((line) => line.paymentId === paymentId);
    const steps = (name: Name) => linesOf(name).map(({ msg, status }) => (status ? `${msg} ${status}` : msg));
    await until(async () => steps("rest").includes("webhook"), "the webhook is logged");
    expect(steps("api")).to.deep.equal(["payment admitted", "payment confirmed", "request 200"]);
    expect(steps("relayer")).to.deep.equal(["payment broadcast"]);
    expect(steps("rest")).to.deep.equal(["payment mined", "webhook"]);
    const transfer = (await world.transfers()).at(-1);
    for (const line of [linesOf("relayer")[0], linesOf("rest")[0]])
      expect(line).to.include({ transaction: transfer?.transaction });
    expect(linesOf("api").at(-1)).to.include({ requestId, traceId: TRACE });
  });

  it("S12 leaves in traces and logs no signature, no text of a statement and no parameter", () => {
    expect(collector.text()).not.to.match(/0x[0-9a-fA-F]{65,}|\bselect\b|json_to_recordset|\$\d/);
    for (const service of Object.values(services)) expect(service.output()).not.to.match(/0x[0-9a-f]{104,}/i);
  });
});
