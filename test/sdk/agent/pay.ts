import { expect } from "chai";
import { memoryLedger, receiptOf } from "turnpike/agent";
import { rejection } from "./support/rejection";
import { serve } from "./support/servers";
import { addressOf, agentFor, marketBeforeEach, transfersSigned } from "./support/world";

describe("agent.pay", () => {
  const market = marketBeforeEach();

  it("pays once and returns the response with its receipt", async () => {
    const { agent } = agentFor(market.facilitator.url);
    const response = await agent.pay(`${market.provider.url}/data?q=1`);
    expect(response.status).to.equal(200);
    expect(await response.json()).to.include({ data: "paid content" });
    expect(response.receipt).to.deep.include({
      amount: 500_000n,
      payer: addressOf("payer"),
      payTo: addressOf("provider"),
      network: "local-31337",
      resource: `${market.provider.url}/data?q=1`,
      resumed: false,
    });
    expect(receiptOf(response)).to.equal(response.receipt);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("repeats method, body and headers of the request, from a Request too", async () => {
    const { agent } = agentFor(market.facilitator.url);
    const request = new Request(`${market.provider.url}/job`, {
      method: "POST",
      body: "work",
      headers: { "x-tag": "t" },
    });
    const response = await agent.pay(request);
    expect(await response.json()).to.include({ echo: "work" });
    expect(market.provider.seen.map(({ method, body, headers }) => [method, body, headers["x-tag"]])).to.deep.equal([
      ["POST", "work", "t"],
      ["POST", "work", "t"],
    ]);
  });

  it("returns what needs no payment as it came, without a receipt", async () => {
    const free = await serve(() => ({ status: 200, json: { free: true } }));
    const { agent, signed } = agentFor(market.facilitator.url);
    const response = await agent.pay(free.url);
    expect(await response.json()).to.deep.equal({ free: true });
    expect(response.receipt).to.equal(undefined);
    expect(signed).to.deep.equal([]);
  });

  it("follows the redirect that it has paid for, and returns the redirect itself where nothing is served behind it", async () => {
    const away = `${market.provider.url}/away`;
    const behind: Readonly<Record<string, () => Response>> = {
      "the content": () => new Response("the content"),
      "404": () => new Response("not here", { status: 404 }),
      "another price": () => new Response("{}", { status: 402 }),
      "a server that fails": () => new Response("", { status: 503 }),
      "no server": () => {
        throw new TypeError("fetch failed");
      },
    };
    for (const method of ["pay", "fetch"] as const) {
      for (const [what, answer] of Object.entries(behind)) {
        market.provider.steps.push({ redirect: away });
        const { agent } = agentFor(market.facilitator.url, {
          fetch: async (input, init) => (String(input) === away ? answer() : fetch(input, init)),
        });
        const response = await agent[method](`${market.provider.url}/${method}/${Object.keys(behind).indexOf(what)}`);
        const isContent = what === "the content";
        expect([response.status, receiptOf(response)?.amount], what).to.deep.equal([isContent ? 200 : 302, 500_000n]);
        if (isContent) expect(await response.text()).to.equal("the content");
        else expect(response.headers.get("location"), what).to.equal(away);
      }
    }
    expect(market.chain.transfers).to.have.length(10);
  });

  it("presents a payment again that a 304 has left unused", async () => {
    const subject = agentFor(market.facilitator.url, {
      fetch: async (input, init) => {
        const isPaid = new Headers(init?.headers).has("x-payment");
        return isPaid && isFirst ? new Response(null, { status: 304 }) : fetch(input, init);
      },
    });
    let isFirst = true;
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(304);
    isFirst = false;
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect([transfersSigned(subject), market.chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("waits while the Facilitator says pending, with the same authorization", async () => {
    market.facilitator.steps.push("pending", "pending", "pending");
    const subject = agentFor(market.facilitator.url);
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect(market.facilitator.signatures.size).to.equal(1);
  });

  it("waits for a proof that is in flight elsewhere", async () => {
    market.provider.steps.push("409", "409");
    const { agent } = agentFor(market.facilitator.url);
    expect((await agent.pay(market.provider.url)).status).to.equal(200);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("says InsufficientFunds before it signs", async () => {
    market.chain.balance = 499_999n;
    const subject = agentFor(market.facilitator.url);
    const error = await rejection(subject.agent.pay(market.provider.url));
    expect(error.code).to.equal("InsufficientFunds");
    expect(error.details).to.include({ required: "500000", available: "499999" });
    expect(subject.signed).to.deep.equal([]);
    expect((await subject.agent.payments()).length).to.equal(0);
  });

  it("retries a rejected proof, bounded, then reports InvalidPaymentProof; the next call presents the same one", async () => {
    market.provider.steps.push("402", "402", "402", "402");
    const subject = agentFor(market.facilitator.url);
    const error = await rejection(subject.agent.pay(market.provider.url));
    expect(error.code).to.equal("InvalidPaymentProof");
    expect(error.details).to.have.property("transaction");
    expect(market.provider.seen.filter(({ headers }) => headers["x-payment"])).to.have.length(4);

    const response = await subject.agent.pay(market.provider.url);
    expect(response.status).to.equal(200);
    expect(response.receipt?.resumed).to.equal(true);
    expect(transfersSigned(subject)).to.equal(1);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("pays again for the next call once a purchase was served", async () => {
    const { agent } = agentFor(market.facilitator.url);
    await agent.pay(market.provider.url);
    await agent.pay(market.provider.url);
    expect(market.chain.transfers).to.have.length(2);
  });

  it("pays for parallel calls of the same request separately", async () => {
    const { agent } = agentFor(market.facilitator.url);
    const responses = await Promise.all([1, 2, 3].map(() => agent.pay(market.provider.url)));
    expect(responses.map(({ status }) => status)).to.deep.equal([200, 200, 200]);
    expect(market.chain.transfers).to.have.length(3);
    expect(market.provider.granted).to.have.length(3);
  });

  it("pays once for parallel calls with the same idempotency key", async () => {
    const { agent } = agentFor(market.facilitator.url);
    const outcomes = await Promise.allSettled(
      [1, 2, 3].map(() => agent.pay(market.provider.url, { idempotencyKey: "order 7" })),
    );
    expect(outcomes.filter(({ status }) => status === "fulfilled")).to.have.length(1);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("sends the caller's idempotency key only as a keyed hash of it", async () => {
    const ledger = memoryLedger();
    const one = agentFor(market.facilitator.url, { ledger });
    const other = agentFor(market.facilitator.url, { role: "other payer" });
    await one.agent.pay(market.provider.url, { idempotencyKey: "order 7" });
    await other.agent.pay(market.provider.url, { idempotencyKey: "order 7" });
    const keys = new Set(market.provider.seen.map(({ headers }) => headers["idempotency-key"]));
    expect(keys.size).to.equal(2);
    expect([...keys].some((key) => key?.includes("order"))).to.equal(false);
    expect(market.chain.transfers).to.have.length(2);
  });
});
