import { expect } from "chai";
import { API_SCOPES } from "turnpike/facilitator";
import { type Address, addressOfKey, type Hex, signDigest, typedDataDigest } from "turnpike/protocol";
import { freePort, testKey } from "../../support/chain";
import { type FacilitatorWorld, type Payer, startWorld, until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { refundToWire, signRefund } from "../support/refunds";
import { type Receiver, startReceiver } from "../webhooks/support/receiver";

type Line = Readonly<Record<string, unknown>>;

const PAID = 250_000n;

describe("log lines and metrics of a payment", function () {
  this.timeout(180_000);
  let world: FacilitatorWorld;
  let program: Program;
  let service: ServiceProcess;
  let receiver: Receiver;
  let metricsPort: number;
  let payer: Payer;
  let poorPayer: Payer;
  const payee: Payer = { key: testKey("payee") as Hex, address: addressOfKey(testKey("payee") as Hex) };

  before(async () => {
    world = await startWorld();
    // Before the start, so that their money is in a block that the service has read.
    payer = await world.payer();
    poorPayer = await world.payer(1n);
    program = buildProgram();
    receiver = await startReceiver();
    metricsPort = await freePort();
    const settings = { CONFIRMATIONS: "2", ALLOW_PRIVATE_WEBHOOKS: "true", METRICS_PORT: String(metricsPort) };
    service = await program.start(world.env(settings));
    const { proofSigners, chainId } = await service.client.supported();
    const created = await service.client.createKey({
      provider: payee.address,
      name: "test",
      scopes: API_SCOPES,
      chainId,
      facilitator: proofSigners[0] as Address,
      sign: async (data) => signDigest(typedDataDigest(data), payee.key),
    });
    if (created.kind === "refused") throw created.error;
    const endpoint = await post("/webhook-endpoints", { url: receiver.url }, created.key.key);
    expect(endpoint.status).to.equal(201);
  });
  after(async () => {
    await service?.stop();
    await receiver?.stop();
    program?.remove();
    await world?.stop();
  });

  const post = (path: string, body: unknown, apiKey?: string): Promise<Response> =>
    fetch(service.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
      body: JSON.stringify(body),
    });
  const lines = (): Line[] =>
    service
      .output()
      .split("\n")
      .flatMap((text) => (text.startsWith("{") ? [JSON.parse(text) as Line] : []));
  /** As `jq 'select(.paymentId == $id)'` finds them. */
  const linesOf = (paymentId: Hex): Line[] => lines().filter((line) => line.paymentId === paymentId);
  const named = (line: Line): string => String(line.msg === "request" ? `${line.route} ${line.status}` : line.msg);
  const isLogged = (found: readonly Line[], name: string): boolean => found.some((line) => named(line) === name);

  it("follows one payment from its request to its receipt, its webhook and its refund", async () => {
    const signed = await world.signPayment({ payer });
    const paymentId = world.idOf(signed);
    const paid = await post("/authorize", { signedPayment: paymentToWire(signed) });
    expect(paid.status).to.equal(200);
    const steps = await until(async () => {
      const found = linesOf(paymentId);
      return isLogged(found, "/authorize 200") && isLogged(found, "webhook") && found;
    }, "the answer and the webhook are logged");
    expect(steps.map(named)).to.have.members([
      ...["payment admitted", "payment broadcast", "payment mined", "payment confirmed"],
      ...["/authorize 200", "webhook"],
    ]);
    const placeOf = (name: string): number => steps.map(named).indexOf(name);
    expect(placeOf("payment admitted")).to.be.lessThan(placeOf("payment mined"));
    expect(placeOf("payment broadcast")).to.be.lessThan(placeOf("payment mined"));
    expect(placeOf("payment mined")).to.be.lessThan(placeOf("payment confirmed"));
    expect(placeOf("payment confirmed")).to.be.lessThan(placeOf("/authorize 200"));
    const [mined] = steps.filter(({ msg }) => msg === "payment mined");
    const [sent] = steps.filter(({ msg }) => msg === "payment broadcast");
    const transfers = await world.transfers();
    expect(transfers.map(({ transaction }) => transaction)).to.include(mined?.transaction);
    expect(sent?.transaction, "sent in the transaction that was mined").to.equal(mined?.transaction);
    const [request] = steps.filter(({ msg }) => msg === "request");
    expect(request?.requestId).to.equal(paid.headers.get("x-request-id"));
    const [webhook] = steps.filter(({ msg }) => msg === "webhook");
    expect(webhook).to.include({ type: "payment.settled", outcome: "delivered" });

    const to = signed.authorization.from;
    const target = { type: "payment" as const, paymentId };
    const refund = await signRefund(world, { account: payee, to, amount: PAID, target });
    expect((await post("/refunds", refundToWire(refund))).status).to.equal(200);
    const refundSteps = (): Line[] => linesOf(paymentId).slice(steps.length);
    await until(
      async () => isLogged(refundSteps(), "/refunds 200") && isLogged(refundSteps(), "webhook"),
      "the refund's answer and webhook are logged",
    );
    expect(refundSteps().map(named)).to.have.members([
      ...["payment admitted", "payment broadcast", "payment mined", "payment confirmed"],
      ...["/refunds 200", "webhook"],
    ]);
    const refundIds = new Set(refundSteps().flatMap(({ refundId }) => (refundId === undefined ? [] : [refundId])));
    expect([...refundIds], "its own id")
      .to.have.length(1)
      .and.not.include(paymentId);
    expect(refundSteps().find(({ msg }) => msg === "webhook")).to.include({ type: "refund.settled" });

    for (const secret of [signed.signature, signed.memo, refund.signature])
      expect(service.output()).not.to.include(secret.slice(2));
  });

  it("says why a payment is refused, on its lines", async () => {
    const signed = await world.signPayment({ payer: poorPayer });
    const answer = await post("/authorize", { signedPayment: paymentToWire(signed) });
    expect(answer.status).to.equal(422);
    const steps = await until(async () => {
      const found = linesOf(world.idOf(signed));
      return found.length >= 2 && found;
    }, "its lines are written");
    expect(steps.map(named)).to.deep.equal(["payment refused", "/authorize 422"]);
    for (const step of steps) expect(step).to.include({ code: "InsufficientFunds" });
    expect(steps[0]).to.include({ reason: "funds" });
  });

  it("counts them, and measures each stage, on a port of its own that needs no key", async () => {
    const answer = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
    expect(answer.headers.get("content-type")).to.match(/^text\/plain; version=0\.0\.4/);
    const text = await answer.text();
    const seriesValue = (series: string): number =>
      Number(
        text
          .split("\n")
          .find((line) => line.startsWith(`${series} `))
          ?.slice(series.length),
      );
    const expected = {
      'turnpike_payments_admitted_total{channel="authorize"}': 1,
      'turnpike_payments_admitted_total{channel="refund"}': 1,
      'turnpike_payment_refusals_total{code="InsufficientFunds",reason="funds"}': 1,
      'turnpike_http_errors_total{code="InsufficientFunds"}': 1,
      turnpike_payments_settled_total: 2,
      turnpike_payment_settle_seconds_count: 2,
      'turnpike_transactions_mined_total{purpose="settle",result="success"}': 2,
      turnpike_payments_queued: 0,
      turnpike_reorganisations_total: 0,
      'turnpike_lease_held{lease="indexer",key=""}': 1,
      'turnpike_payment_stage_seconds_count{stage="intake"}': 2,
      'turnpike_payment_stage_seconds_count{stage="bind"}': 2,
      'turnpike_payment_stage_seconds_count{stage="queue"}': 2,
      'turnpike_payment_stage_seconds_count{stage="submit"}': 2,
      'turnpike_payment_stage_seconds_count{stage="mine"}': 2,
      'turnpike_payment_stage_seconds_count{stage="confirm"}': 2,
      'turnpike_payment_stage_seconds_count{stage="notify"}': 2,
    };
    const found = Object.fromEntries(Object.keys(expected).map((series) => [series, seriesValue(series)]));
    expect(found).to.deep.equal(expected);
    const judged = seriesValue('turnpike_payment_stage_seconds_count{stage="judge"}');
    expect(judged, "each of the three requests, and again while it waits").to.be.at.least(3);
    expect(text).to.match(/^turnpike_build_info\{version="\d+\.\d+\.\d+"\} 1$/m);
    expect(seriesValue("process_cpu_seconds_total")).to.be.greaterThan(0);
    const busy = seriesValue('turnpike_database_connections{state="busy"}');
    const idle = seriesValue('turnpike_database_connections{state="idle"}');
    // The embedded database has no connections.
    if (process.env.TEST_PG_URL) expect(busy + idle).to.be.within(1, 10);
    else expect(busy + idle).to.deep.equal(Number.NaN);
    expect((await fetch(`${service.url}/metrics`)).status, "not on the API's port").to.equal(404);
    expect((await fetch(`http://127.0.0.1:${metricsPort}/supported`)).status, "nothing else there").to.equal(404);
  });
});
