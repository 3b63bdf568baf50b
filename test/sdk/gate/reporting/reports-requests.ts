import { createServer, type ServerResponse } from "node:http";
import { expect } from "chai";
import express from "express";
import { type Report, type ReportEntry, reportSchema } from "turnpike/facilitator";
import { createProvider, memoryClaims, type Provider, type ProviderOptions } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { type AcceptEntryWire, ConfigError } from "turnpike/protocol";
import { resourceTemplateOf } from "../../../../sdk/src/gate/reporting/funnel-metrics";
import {
  addressOf,
  CHAIN_ID,
  closeServer,
  listen,
  NOW,
  ONE_TIME,
  OVER_PERMIT2,
  PAY_TO,
  paidHeaders,
  quoteOf,
  send,
  startSmallFacilitator,
  TOKEN,
} from "../../../support/gate";
import { permit2Headers } from "../support/permit2";
import { type Accepted, requiredIn, v1Headers } from "../support/standard";

const API_KEY = `tpk_${"0".repeat(16)}_${"k".repeat(43)}`;

interface Counter {
  readonly url: string;
  readonly reports: Report[];
  mode: "take" | "hang" | "away";
  readonly held: ServerResponse[];
  stop(): Promise<void>;
}

/** Starts a simulated Facilitator that accepts reports and proofs alone. */
async function startCounter(): Promise<Counter> {
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    if (request.url === "/proofs/verify")
      return response.setHeader("content-type", "application/json").end('{"valid":true}');
    if (counter.mode === "away") return request.socket.destroy();
    if (counter.mode === "hang") return void counter.held.push(response);
    expect(request.headers.authorization).to.equal(`Bearer ${API_KEY}`);
    counter.reports.push(reportSchema.parse(JSON.parse(text)));
    return response.setHeader("content-type", "application/json").end('{"status":"counted"}');
  });
  const counter: Counter = {
    url: await listen(server),
    reports: [],
    mode: "take",
    held: [],
    stop: () => closeServer(server),
  };
  return counter;
}

describe("gate > reports of requests", () => {
  let counter: Counter;
  let provider: Provider;
  let url: string;
  let stop: () => Promise<void>;

  const providerOf = (more: ProviderOptions): Provider =>
    createProvider({
      network: `local-${CHAIN_ID}`,
      token: { address: TOKEN, name: "Test USD", version: "1" },
      payTo: PAY_TO,
      facilitator: { url: counter.url, signers: [addressOf("facilitator")] },
      secret: "a secret of this test, long enough to be one",
      claims: memoryClaims({ warn: false }),
      clock: { nowSec: () => NOW },
      reports: { apiKey: API_KEY },
      ...more,
    });

  beforeEach(async () => {
    counter = await startCounter();
    await serve();
  });
  async function serve(more: ProviderOptions = {}): Promise<void> {
    provider = providerOf(more);
    const app = express();
    app.get("/reports/:id", expressGate(provider.gate({ pricing: ONE_TIME })), (request, response) => {
      if (request.params.id === "broken") response.status(500).end();
      else response.json({ ok: true });
    });
    app.get(
      "/words/:id",
      expressGate(provider.gate({ pricing: [{ type: "upto", max: 500_000n }] })),
      (request, response) => {
        request.payment?.charge(120_000n);
        response.json({ ok: true });
      },
    );
    const server = createServer(app);
    url = await listen(server);
    stop = () => closeServer(server);
  }
  afterEach(async () => {
    await provider.close();
    await stop();
    await counter.stop();
  });

  const get = (path: string, headers: Record<string, string> = {}) => send(url + path, { headers });
  const pay = async (path: string) => get(path, await paidHeaders(url + path));
  const reported = async (): Promise<Partial<ReportEntry>[]> => {
    await provider.flush();
    return counter.reports
      .flatMap(({ entries }) => entries)
      .map(({ step, resource, cause, count, amount, offer }) => ({
        step,
        resource,
        count,
        amount,
        offer,
        ...(cause && { cause }),
      }));
  };

  it("names the route without its parameters: counts quotes, refusals by cause, payments and responses", async () => {
    expect((await pay("/reports/7?token=secret")).status).to.equal(200);
    expect((await pay("/reports/broken")).status).to.equal(500);
    expect((await get("/reports/8", { "X-PAYMENT": "nonsense" })).status).to.equal(402);
    const common = { resource: "/reports/:id", offer: "one-time" };
    expect(await reported()).to.have.deep.members([
      { ...common, step: "asked", cause: "PaymentRequired", count: 2, amount: 1_000_000n },
      { ...common, step: "paid", count: 2, amount: 1_000_000n },
      { ...common, step: "served", count: 1, amount: 500_000n },
      { ...common, step: "failed", count: 1, amount: 500_000n },
      { ...common, step: "refused", cause: "InvalidPaymentProof/malformed", count: 1, amount: 500_000n },
    ]);
    const text = JSON.stringify(counter.reports, (_, value: unknown) => (typeof value === "bigint" ? "" : value));
    for (const secret of ["secret", "nonsense", "/reports/7", addressOf("payer").slice(2)]) {
      expect(text.toLowerCase()).to.not.include(secret.toLowerCase());
    }
  });

  it("counts a payment that settles after the handler once it has settled, and no money for a failure or beyond its charge", async () => {
    const facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
    await provider.close();
    await stop();
    await serve({
      facilitator: { url: facilitator.url, signers: [facilitator.signer] },
      fetch: (input, init) =>
        fetch(String(input).replace(`${facilitator.url}/reports`, `${counter.url}/reports`), init),
    });
    const payment = async (path: string) => v1Headers((await quoteOf(url + path)).accepts[0] as AcceptEntryWire);
    expect((await get("/reports/1", await payment("/reports/1"))).status).to.equal(200);
    expect((await get("/reports/broken", await payment("/reports/broken"))).status).to.equal(500);
    const short = { success: false, errorReason: "insufficient_funds", transaction: "", network: "local-31337" };
    facilitator.settlements.push(short);
    const later = await payment("/reports/2");
    for (const status of [402, 200, 402]) expect((await get("/reports/2", later)).status).to.equal(status);
    const [upto] = requiredIn(await get("/words/1")).accepts;
    expect((await get("/words/1", permit2Headers(upto as Accepted))).status).to.equal(200);
    const common = { resource: "/reports/:id", offer: "one-time" };
    const words = { resource: "/words/:id", offer: "one-time", count: 1 };
    expect(await reported()).to.have.deep.members([
      { ...words, step: "asked", cause: "PaymentRequired", amount: 500_000n },
      { ...words, step: "paid", amount: 120_000n },
      { ...words, step: "served", amount: 120_000n },
      { ...common, step: "asked", cause: "PaymentRequired", count: 3, amount: 1_500_000n },
      { ...common, step: "paid", count: 2, amount: 1_000_000n },
      { ...common, step: "served", count: 2, amount: 1_000_000n },
      { ...common, step: "failed", count: 1, amount: 500_000n },
      { ...common, step: "refused", cause: "InvalidPaymentProof/insufficient_funds", count: 1, amount: 500_000n },
      { ...common, step: "refused", cause: "PaymentAlreadyUsed/already_used", count: 1, amount: 500_000n },
    ]);
    await facilitator.stop();
  });

  it("delays no request while the Facilitator accepts no reports", async () => {
    for (const mode of ["hang", "away"] as const) {
      counter.mode = mode;
      expect((await get("/reports/1")).status).to.equal(402);
      const flushing = provider.flush();
      for (let time = 0; time < 20; time++) expect((await get(`/reports/${time}`)).status).to.equal(402);
      for (const response of counter.held.splice(0)) response.destroy();
      await flushing;
    }
    counter.mode = "take";
    await provider.flush();
    await provider.flush();
    const counts = counter.reports.flatMap(({ entries }) => entries).map(({ count }) => count);
    expect(counts.reduce((a, b) => a + b, 0)).to.equal(42);
  });

  it("rejects a malformed key and a missing Facilitator", () => {
    const base = { network: `local-${CHAIN_ID}`, facilitator: { url: counter.url } };
    expect(() => createProvider({ ...base, reports: { apiKey: "k" } })).to.throw(ConfigError, /TURNPIKE_REPORTS_KEY/);
    expect(() => createProvider({ network: base.network, reports: { apiKey: API_KEY } })).to.throw(ConfigError);
  });

  it("replaces ids in a path where no framework supplies the route", () => {
    const templateOf = (target: string) => resourceTemplateOf({ target, raw: {} } as never);
    expect(templateOf("/users/12/files/0xabcdef?x=1")).to.equal("/users/:id/files/:id");
    expect(templateOf("/b/3f2504e0-4f89-11d3-9a0c-0305e82c3301")).to.equal("/b/:id");
    expect(templateOf("/t/eyJhbGciOiJIUzI1NiJ9.e30.abc123")).to.equal("/t/:id");
    expect(templateOf("/v1/monthly-statistics")).to.equal("/v1/monthly-statistics");
    expect(templateOf(`/${"a/".repeat(100)}`)).to.equal("*");
    expect(templateOf("/caf\u00e9")).to.equal("*");
  });
});
