import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { createProvider, gated, memoryClaims, type Provider, type ProviderOptions } from "turnpike/gate";
import { type AcceptEntryWire, type Address, encodeJsonHeader } from "turnpike/protocol";
import { authorizationToWire, paymentToWire } from "../facilitator/support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../facilitator/support/processes";
import { bundled } from "../support/bundled";
import { type FacilitatorWorld, type Payer, startWorld, until } from "../support/facilitator";
import { closeServer, listen, quoteOf, send } from "../support/gate";
import { type Collector, type ReceivedSpan, startCollector } from "./support/collector";
import type { TracedProcess } from "./support/traced-process";

const PRICE = 250_000n;
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";

/** All that a span may say. */
const ATTRIBUTES = [
  ...["db.query.summary", "db.system.name", "error.type", "http.request.method", "http.response.status_code"],
  ...["http.route", "rpc.method", "rpc.system"],
  ...["server.address", "turnpike.access", "turnpike.block", "turnpike.chain.id", "turnpike.decision"],
  ...["turnpike.payment.id", "turnpike.settlement", "turnpike.transaction"],
];

describe("end to end > traces", function () {
  this.timeout(180_000);
  let world: FacilitatorWorld;
  let program: Program;
  let service: ServiceProcess;
  let collector: Collector;
  let folder: string;
  let script: string;
  let settings: ProviderOptions;
  let buyer: Payer;
  let payers: readonly Payer[];
  const children: ChildProcess[] = [];

  before(async () => {
    collector = await startCollector();
    world = await startWorld();
    buyer = await world.payer();
    payers = [await world.payer(), await world.payer(), await world.payer(), await world.payer()];
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-traces-"));
    script = bundled(path.join(__dirname, "support/traced-process.ts"), folder);
    program = buildProgram();
    service = await program.start(
      world.env({
        LOG_LEVEL: "info",
        OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/facilitator`,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_BSP_SCHEDULE_DELAY: "50",
      }),
    );
    const { proofSigners } = await service.client.supported();
    const { token: address, tokenName: name, tokenVersion: version } = world.contracts;
    settings = {
      network: world.contracts.network,
      token: { address, name, version },
      payTo: world.payee,
      facilitator: { url: service.url, signers: proofSigners as Address[] },
      secret: "a secret of this test, long enough to be one",
    };
  });
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await service?.stop();
    program?.remove();
    await world?.stop();
    await collector?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** @returns the first line that it prints */
  async function run(assignment: TracedProcess): Promise<string> {
    const child = spawn(process.execPath, [script, JSON.stringify(assignment)], {
      env: { PATH: process.env.PATH, NODE_PATH: path.resolve("node_modules") },
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    return line.toString("utf8").trim();
  }

  const inTrace = (traceId: string | undefined): ReceivedSpan[] =>
    collector.spans().filter((span) => span.traceId === traceId);
  const nameOf = ({ process, name }: ReceivedSpan): string => `${process}: ${name}`;

  /** The names of a span and of all above it, up to the root. */
  function pathTo(span: ReceivedSpan): string[] {
    const parent = collector.spans().find(({ spanId }) => spanId === span.parentSpanId);
    return parent ? [nameOf(span), ...pathTo(parent)] : [nameOf(span)];
  }

  it("follows one purchase through agent, gate and Facilitator to the database and the chain", async () => {
    const shop = await run({ collector: `${collector.url}/gate/v1/traces`, provider: settings });
    const purchase = { url: `${shop}/report`, key: buyer.key, token: world.contracts.token, facilitator: service.url };
    expect(await run({ collector: `${collector.url}/agent/v1/traces`, purchase })).to.equal("200 the report");

    const root = await until(
      async () => collector.spans().find(({ process, name }) => process === "agent" && name === "pay"),
      "the agent has exported its trace",
    );
    const wanted = ["facilitator: confirm payment", "facilitator: POST /proofs/verify"];
    const spans = await until(async () => {
      const found = inTrace(root.traceId);
      return wanted.every((name) => found.map(nameOf).includes(name)) && found;
    }, "the Facilitator has exported its part");

    const paths = spans.map((span) => pathTo(span).join(" < "));
    const authorized = "facilitator: POST /authorize < agent: POST /authorize < agent: pay";
    expect(paths).to.include.members([
      "gate: decide on request < agent: GET < agent: pay",
      ...["judge", "bind", "queue", "submit", "mine", "confirm"].map(
        (stage) => `facilitator: ${stage} payment < ${authorized}`,
      ),
      "facilitator: POST /proofs/verify < gate: POST /proofs/verify < gate: decide on request < agent: GET < agent: pay",
    ]);
    const [transfer] = (await world.transfers()).filter(
      ({ from }) => from.toLowerCase() === buyer.address.toLowerCase(),
    );
    const mined = spans.find(({ name }) => name === "mine payment");
    expect(mined?.attributes).to.include({
      "turnpike.transaction": transfer?.transaction,
      "turnpike.chain.id": world.chain.chainId,
    });
    const system = process.env.TEST_PG_URL ? "postgresql" : "pglite";
    expect(spans.find(({ name }) => name === "bind payment")?.attributes).to.include({ "db.system.name": system });
    const decided = spans.filter(({ name }) => name === "decide on request").map(({ attributes }) => attributes);
    expect(decided.map((attributes) => attributes["turnpike.decision"])).to.have.members(["pay", "allow"]);
    const served = spans.find(({ process, name }) => process === "facilitator" && name === "POST /authorize");
    expect(served?.service).to.equal("turnpike-facilitator");
    const log = service
      .output()
      .split("\n")
      .find((line) => line.includes('"/authorize"') && line.includes(root.traceId));
    expect(JSON.parse(log ?? "{}"), "the log names the trace").to.include({ traceId: root.traceId, status: 200 });
  });

  describe("a gate that traces nothing", () => {
    const sent: { readonly path: string; readonly traceparent: string | null }[] = [];
    let provider: Provider;
    let servers: Record<"before" | "after", { readonly server: Server; readonly url: string }>;

    before(async () => {
      const recorded: ProviderOptions["fetch"] = (input, init) => {
        const traceparent = new Headers(init.headers).get("traceparent");
        sent.push({ path: new URL(input).pathname, traceparent });
        return fetch(input, init);
      };
      provider = createProvider({ ...settings, claims: memoryClaims({ warn: false }), fetch: recorded });
      servers = { before: await open("before"), after: await open("after") };
    });
    after(async () => {
      for (const { server } of Object.values(servers)) await closeServer(server);
      await provider.close();
    });

    async function open(settle: "before" | "after") {
      const gate = provider.paymentGate({ pricing: [{ type: "one-time", amount: PRICE }], settle });
      await gate.ready();
      const server = createServer(gated(gate, (_request, response) => response.end("the report")));
      return { server, url: `${await listen(server)}/report` };
    }

    /** Buys with a standard payment. @returns its id, and what the gate has sent for it */
    async function buy(settle: "before" | "after", payer: Payer | undefined, traceparent: string) {
      const { url } = servers[settle];
      const [entry] = (await quoteOf(url)).accepts as AcceptEntryWire[];
      const exact = await world.signExact({ payer: payer as Payer });
      const payload = { signature: exact.signature, authorization: authorizationToWire(exact.authorization) };
      const payment = encodeJsonHeader({ x402Version: 1, scheme: "exact", network: entry?.network, payload });
      const start = sent.length;
      const answer = await send(url, { headers: { "X-PAYMENT": payment, traceparent } });
      expect(answer.text).to.equal("the report");
      return { paymentId: world.idOf(exact), asked: sent.slice(start) };
    }
    const settledSpan = (paymentId: string): ReceivedSpan | undefined =>
      collector
        .spans()
        .find(({ name, attributes }) => name === "POST /settle" && attributes["turnpike.payment.id"] === paymentId);

    for (const settle of ["before", "after"] as const) {
      it(`passes on the trace that a request names, and settles ${settle} the handler`, async () => {
        const traceparent = `00-${TRACE}-${PARENT}-01`;
        const { paymentId, asked } = await buy(settle, payers[settle === "before" ? 0 : 1], traceparent);
        const paths = settle === "before" ? ["/settle"] : ["/verify", "/settle"];
        expect(asked.filter(({ path }) => paths.includes(path))).to.deep.equal(
          paths.map((at) => ({ path: at, traceparent })),
        );
        const settled = await until(async () => settledSpan(paymentId), "the settlement is exported");
        expect(settled).to.include({ traceId: TRACE, parentSpanId: PARENT });
        const stages = inTrace(TRACE).filter(({ parentSpanId }) => parentSpanId === settled.spanId);
        expect(stages.map(({ name }) => name)).to.include.members(["bind payment", "grant payment"]);
      });
    }

    it("passes on nothing that is no trace; what is not sampled is not exported", async () => {
      const unsampled = await buy("before", payers[2], `00-${TRACE}-${PARENT}-00`);
      const { paymentId, asked } = await buy("before", payers[3], `00-${"0".repeat(31)}g-${PARENT}-01`);
      expect(asked.map(({ traceparent }) => traceparent)).to.deep.equal(asked.map(() => null));
      await until(async () => settledSpan(paymentId), "the later settlement is exported");
      expect(settledSpan(unsampled.paymentId)).to.equal(undefined);
    });
  });

  describe("what was exported", () => {
    it("S12 says no more than names, codes and public ids", () => {
      const named = new Set(collector.spans().flatMap(({ attributes }) => Object.keys(attributes)));
      expect(ATTRIBUTES).to.include.members([...named]);
      // As long as a signature, or a subscription's id.
      expect(collector.text()).not.to.match(/0x[0-9a-f]{65,}/i);
      expect(collector.text()).not.to.include("/report");
    });
  });

  describe("a Facilitator without a collector", () => {
    it("loads nothing of OpenTelemetry unless a collector is named, and takes payments while it is away", async () => {
      const hook = path.join(folder, "loaded.cjs");
      writeFileSync(
        hook,
        `process.on("exit", () => {
        const isOf = (file) => /node_modules.@opentelemetry.(?!api.)/.test(file);
        console.log("loaded of OpenTelemetry: " + Object.keys(require.cache).filter(isOf).length);
      });`,
      );
      await service.stop();
      const loaded: number[] = [];
      const away = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT: "200" };
      for (const more of [{}, { ...away, OTEL_BSP_SCHEDULE_DELAY: "50" }]) {
        const started = await program.start(
          world.env({ LOG_LEVEL: "info", NODE_OPTIONS: `--require ${hook}`, ...more }),
        );
        const payment = paymentToWire(await world.signPayment());
        expect(await started.client.authorize(payment)).to.include({ kind: "settled" });
        const isLogged = async () => started.output().includes("traces are not exported");
        if ("OTEL_EXPORTER_OTLP_ENDPOINT" in more) await until(isLogged, "the fault is logged");
        expect(await started.stop(), "stops in time").to.equal(0);
        loaded.push(Number(/loaded of OpenTelemetry: (\d+)/.exec(started.output())?.[1]));
      }
      expect(loaded[0]).to.equal(0);
      expect(loaded[1]).to.be.greaterThan(0);
    });
  });
});
