import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { GateOptions, Provider } from "turnpike/gate";
import { deferred } from "../../../../sdk/src/protocol/exchange";
import {
  addressOf,
  closeServer,
  FRAMEWORKS,
  headerOf,
  listen,
  NOW,
  ONE_TIME,
  paidHeaders,
  proofOf,
  quoteOf,
  type RouteSpec,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testClock,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";

describe("quotes", () => {
  let facilitator: SmallFacilitator;
  const open: { stop?(): Promise<void>; close?(): Promise<void> }[] = [];

  before(async () => {
    facilitator = await startSmallFacilitator();
  });
  after(() => facilitator.stop());
  afterEach(async () => {
    facilitator.mode = "valid";
    for (const each of open.splice(0)) await (each.stop?.() ?? each.close?.());
  });

  async function serve(provider: Provider, routes: readonly RouteSpec[]): Promise<TestServer> {
    const server = await FRAMEWORKS.express(provider, routes);
    open.push(server, provider);
    return server;
  }
  const gated = (gate: GateOptions<never>, provider = testProvider(facilitator)) =>
    serve(provider, [{ path: "/x", gate }]);

  it("C4 honours quoted terms until they expire, even if the price changes", async () => {
    let amount = 1_000n;
    const clock = testClock();
    const provider = testProvider(facilitator, { clock });
    const { url } = await gated({ pricing: [{ type: "one-time", amount: () => amount }] }, provider);
    const quoted = await paidHeaders(`${url}/x`, { settledAt: NOW + 599 });
    const tooLate = await paidHeaders(`${url}/x`, { settledAt: NOW + 601 });
    amount = 2_000_000n;
    clock.sec = NOW + 650;
    expect((await send(`${url}/x`, { headers: quoted })).status).to.equal(200);
    const refused = await send(`${url}/x`, { headers: tooLate });
    expect(refused.json.reason).to.equal("memo_expired");
    expect(refused.json.accepts[0].amount).to.equal("2000000");
  });

  it("C4 refuses a cheap route's proof on an expensive route, also when one URL is spelt as another", async () => {
    const { url, served } = await serve(testProvider(facilitator), [
      { path: "/cheap", gate: { pricing: [{ type: "one-time", amount: 1n }] } },
      { path: "/dear", gate: { pricing: [{ type: "one-time", amount: 9_000_000n }] } },
    ]);
    for (const target of [
      "/cheap/../dear",
      "/cheap/%2e%2e/dear",
      "/cheap/.%2E/dear",
      "/cheap/./../dear",
      "/cheap\\..\\dear",
    ]) {
      const answer = await send(url, { path: target });
      expect(answer.status, target).to.be.oneOf([400, 404]);
      if (answer.status === 400) expect(answer.json.error).to.equal("InvalidRequest");
    }
    const [entry] = (await quoteOf(`${url}/cheap`)).accepts;
    const forged = headerOf(proofOf(entry as never, { resource: `${url}/dear` }));
    expect((await send(`${url}/dear`, { headers: forged })).json.reason).to.equal("memo");
    expect(served.size).to.equal(0);
  });

  it("C4 never lets a spelling quoted by one Hono route pay for another", async () => {
    const provider = testProvider(facilitator);
    const server = await FRAMEWORKS.hono(provider, [
      { path: "/cheap", gate: { pricing: [{ type: "one-time", amount: 1n }] } },
      { path: "/dear", gate: { pricing: [{ type: "one-time", amount: 9_000_000n }] } },
    ]);
    open.push(server, provider);
    for (const target of [
      "/cheap/../dear",
      "/cheap/%2e%2e/dear",
      "/cheap/..%2fdear",
      "//dear",
      "/dear\\..\\cheap",
      "/de%61r",
    ]) {
      const answer = await send(server.url, { path: target });
      expect(answer.status, target).to.be.oneOf([400, 402, 404]);
      for (const { resource, amount } of answer.json?.accepts ?? []) {
        if (resource === `${server.url}/dear`) expect(amount, target).to.equal("9000000");
      }
    }
    expect(server.served.size).to.equal(0);
  });

  it("C5 keeps every spelling of a path behind the gate, and quotes each separately", async () => {
    const { url, served } = await gated({ pricing: ONE_TIME });
    const headers = await paidHeaders(`${url}/x/report`);
    const spelt = [
      "/x//report",
      "/X/report",
      "/x/repor%74",
      "/x/report/",
      "/x/report?",
      "/x/report?a",
      "//x/report",
      "/x/report;a",
    ];
    for (const target of spelt) {
      const unpaid = await send(url, { path: target });
      expect(unpaid.status, target).to.be.oneOf([402, 404]);
      const paid = await send(url, { path: target, headers });
      expect(paid.status, target).to.be.oneOf([402, 404]);
      if (unpaid.status === 402) expect(unpaid.json.accepts[0].resource).to.not.equal(`${url}/x/report`);
    }
    const head = await send(`${url}/x/report`, { method: "HEAD", headers });
    expect(head.status).to.equal(402);
    expect(served.size).to.equal(0);
    expect((await send(`${url}/x/report`, { headers })).status).to.equal(200);
  });

  it("C5 quotes the URL as the client wrote it, not as a mounted router sees it", async () => {
    const { url } = await serve(testProvider(facilitator), [{ path: "/api/v1", gate: { pricing: ONE_TIME } }]);
    const [entry] = (await quoteOf(`${url}/api/v1/deep/thing?x=1#ignored`)).accepts;
    expect(entry?.resource).to.equal(`${url}/api/v1/deep/thing?x=1`);
  });

  it("joins publicUrl with the target, and ignores the Host header", async () => {
    const provider = testProvider(facilitator, { publicUrl: "https://api.example/base/" });
    const { url } = await gated({ pricing: ONE_TIME }, provider);
    const [entry] = (await quoteOf(`${url}/x?q=1`, { headers: { Host: "evil.example" } })).accepts;
    expect(entry?.resource).to.equal("https://api.example/base/x?q=1");
  });

  it("returns 500 rather than quote for a Host header that any client can set", async () => {
    const { url, served } = await gated({ pricing: ONE_TIME });
    const forwarded = { Host: "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https" };
    expect((await send(`${url}/x`, { headers: forwarded })).status).to.equal(500);
    const trusting = await gated({ pricing: ONE_TIME }, testProvider(facilitator, { trustProxy: true }));
    const [entry] = (
      await quoteOf(`${trusting.url}/x`, { headers: { ...forwarded, "X-Forwarded-Host": "api.example" } })
    ).accepts;
    expect(entry?.resource).to.equal("https://api.example/x");
    expect(served.size).to.equal(0);
  });

  it("derives one ref from an Idempotency-Key at any price, and another for another key, query or method", async () => {
    let amount = 5n;
    const { url } = await gated({ pricing: [{ type: "one-time", amount: () => amount++ }] });
    const refOf = async (key: string, target = "/x", method = "GET") => {
      const quote = await quoteOf(`${url}${target}`, { method, headers: { "Idempotency-Key": key } });
      return { ref: quote.accepts[0]?.memo?.split(".")[0], message: quote.message };
    };
    const key = "purchase-0123456789";
    const { ref } = await refOf(key);
    expect((await refOf(key)).ref).to.equal(ref);
    expect((await refOf(`${key}x`)).ref).to.not.equal(ref);
    expect((await refOf(key, "/x?other")).ref).to.not.equal(ref);
    expect((await refOf(key, "/x", "POST")).ref).to.not.equal(ref);
    for (const bad of ["too-short", "k".repeat(129), "long enough, with spaces"]) {
      const first = await refOf(bad);
      expect(first.message).to.include("Idempotency-Key was ignored");
      expect(first.message, "what it must be").to.include("16 to 128 visible ASCII characters, and no space");
      expect((await refOf(bad)).ref).to.not.equal(first.ref);
    }
  });

  it("lists one-time options cheapest first and writes network names that stock clients know", async () => {
    const provider = testProvider(facilitator, {
      network: "base-mainnet",
      networkNames: "x402-v1",
      token: undefined as never,
    });
    const pricing = [
      { type: "one-time", amount: 900n },
      { type: "one-time", amount: 7 },
      { type: "one-time", amount: "80" },
    ] as const;
    const { url } = await gated({ pricing }, provider);
    const { accepts } = await quoteOf(`${url}/x`);
    expect(accepts.map(({ amount }) => amount)).to.deep.equal(["7", "80", "900"]);
    expect(new Set(accepts.map(({ network }) => network))).to.deep.equal(new Set(["base"]));
    expect(accepts[0]?.token).to.equal("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
  });

  it("keeps PAYMENT-REQUIRED within 3 KiB by omitting the most expensive options", async () => {
    const pricing = Array.from({ length: 40 }, (_, i) => ({ type: "one-time" as const, amount: BigInt(i + 1) }));
    const { url } = await gated({ pricing });
    const answer = await send(`${url}/x`);
    const header = answer.headers["payment-required"] as string;
    expect(answer.json.accepts).to.have.length(40);
    expect(header.length).to.be.at.most(3 * 1_024);
    expect(JSON.parse(Buffer.from(header, "base64").toString()).accepts[0].amount).to.equal("1");
  });

  it("serves what `free` allows without a payment, and returns 500 when it throws", async () => {
    const free = (request: { url: string }) => {
      if (request.url.includes("boom")) throw new RangeError("broken");
      return request.url.includes("free");
    };
    const { url, served } = await gated({ pricing: ONE_TIME, free: free as never });
    expect((await send(`${url}/x/free`)).json).to.deep.equal({ kind: "free" });
    expect((await send(`${url}/x/paid`)).status).to.equal(402);
    expect((await send(`${url}/x/boom`)).status).to.equal(500);
    expect(served.get("/x")).to.equal(1);
  });

  it("returns 500 when the price cannot be computed: never free, never a wrong price", async () => {
    const failing = [
      () => {
        throw new RangeError("no price");
      },
      () => 0n,
      () => 1.5,
      () => -1n,
      () => Number.NaN,
      () => undefined as never,
    ];
    for (const amount of failing) {
      const { url, served } = await gated({ pricing: [{ type: "one-time", amount: amount as never }] });
      const answer = await send(`${url}/x`);
      expect(answer.status).to.equal(500);
      expect(answer.text).to.not.include("no price");
      expect(served.size).to.equal(0);
    }
  });

  it("calls `authorize` before a payment is used", async () => {
    let isWelcome = false;
    const { url } = await gated({ pricing: ONE_TIME, authorize: () => isWelcome });
    const headers = await paidHeaders(`${url}/x`);
    const refused = await send(`${url}/x`, { headers });
    expect(refused.status).to.equal(403);
    expect(refused.json.error).to.equal("AccessRefused");
    isWelcome = true;
    expect((await send(`${url}/x`, { headers })).status).to.equal(200);
  });

  it("C6 returns 503 while the Facilitator is unreachable, and accepts the proof afterwards", async () => {
    const { url, served } = await gated({ pricing: ONE_TIME });
    const headers = await paidHeaders(`${url}/x`);
    for (const mode of ["down", "broken"] as const) {
      facilitator.mode = mode;
      const answer = await send(`${url}/x`, { headers });
      expect(answer.status).to.equal(503);
      expect(answer.json).to.include({ error: "Unavailable" });
      expect(answer.headers["retry-after"]).to.match(/^[1-9]/);
      expect((await send(`${url}/x`)).status, "no credential is always 402").to.equal(402);
    }
    facilitator.mode = "valid";
    expect(served.size).to.equal(0);
    for (let i = 0; i < 5; i++) expect((await send(`${url}/x`, { headers })).status).to.equal(i === 0 ? 200 : 402);
  });

  it("refuses a reversed payment, and accepts it when it is confirmed again", async () => {
    const { url } = await gated({ pricing: ONE_TIME });
    const headers = await paidHeaders(`${url}/x`);
    facilitator.mode = "reversed";
    for (let i = 0; i < 6; i++) expect((await send(`${url}/x`, { headers })).json.reason).to.equal("reversed");
    facilitator.mode = "valid";
    expect((await send(`${url}/x`, { headers })).status).to.equal(200);
  });

  it("makes no request with verify: signature", async () => {
    const { url } = await gated({ pricing: ONE_TIME }, testProvider(facilitator, { verify: "signature" }));
    facilitator.calls.length = 0;
    facilitator.mode = "down";
    expect((await send(`${url}/x`, { headers: await paidHeaders(`${url}/x`) })).status).to.equal(200);
    expect(facilitator.calls).to.have.length(0);
  });

  it("C1 C18 grants one request among gates that share a claim file, also after a restart", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "turnpike-claims-"));
    const start = () =>
      gated({ pricing: ONE_TIME }, testProvider(facilitator, { claims: folder, publicUrl: "https://api.example" }));
    try {
      const first = await start();
      const second = await start();
      const headers = await paidHeaders(`${first.url}/x`);
      const urls = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? first.url : second.url));
      const answers = await Promise.all(urls.map((url) => send(`${url}/x`, { headers })));
      expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
      for (const each of open.splice(0)) await (each.stop?.() ?? each.close?.());
      const restarted = await start();
      expect((await send(`${restarted.url}/x`, { headers })).json.reason).to.equal("already_used");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("honours quotes of the previous secret after a rotation, and of no other", async () => {
    const [old, fresh] = ["old secret, long enough to be used here", "new secret, long enough to be used here"];
    const options = { publicUrl: "https://api.example" };
    const before = await gated({ pricing: ONE_TIME }, testProvider(facilitator, { ...options, secret: old }));
    const headers = await paidHeaders(`${before.url}/x`);
    const unrelated = await gated({ pricing: ONE_TIME }, testProvider(facilitator, { ...options, secret: fresh }));
    expect((await send(`${unrelated.url}/x`, { headers })).json.reason).to.equal("memo");
    const rotated = await gated({ pricing: ONE_TIME }, testProvider(facilitator, { ...options, secret: [fresh, old] }));
    expect((await send(`${rotated.url}/x`, { headers })).status).to.equal(200);
  });

  it("uses a payment whose client has left when the handler answers", async () => {
    const [isRunning, hasLeft, mayAnswer] = [deferred(), deferred(), deferred()];
    const provider = testProvider(facilitator);
    open.push(provider);
    const gate = provider.paymentGate({ pricing: ONE_TIME });
    const server = createServer((incoming, response) => {
      void gate(incoming, response, async () => {
        response.once("close", () => hasLeft.resolve());
        isRunning.resolve();
        await mayAnswer.promise;
        response.end("late");
      });
    });
    const url = await listen(server);
    open.push({ stop: () => closeServer(server) });
    const headers = await paidHeaders(`${url}/x`, { payer: addressOf("leaver") });
    const outgoing = request(`${url}/x`, { headers });
    outgoing.on("error", () => undefined);
    outgoing.end();
    await isRunning.promise;
    expect((await send(`${url}/x`, { headers })).status).to.equal(409);
    outgoing.destroy();
    await hasLeft.promise;
    expect((await send(`${url}/x`, { headers })).status).to.equal(409);
    mayAnswer.resolve();
    await until(async () => (await send(`${url}/x`, { headers })).json.reason === "already_used");
  });
});
