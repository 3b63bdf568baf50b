import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import { startChainRpc } from "./support/chain-rpc";
import { rejection } from "./support/rejection";
import { serve } from "./support/servers";
import { addressOf, agentFor, marketBeforeEach, startProvider, TOKEN, transfersSigned } from "./support/world";

const impatient = { settleMs: 2_000, presentations: 3 };

describe("the agent pays at most once", () => {
  const market = marketBeforeEach();

  it("D1 settled, then the answer was lost: the same authorization again, one payment", async () => {
    market.facilitator.steps.push("settle_then_drop", "drop", "502");
    const subject = agentFor(market.facilitator.url);
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect(market.facilitator.signatures.size).to.equal(1);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("D1 a rate limit that refuses the first post rejects with RateLimited; the next call posts the same", async () => {
    market.facilitator.steps.push({ limit: 1_800 });
    const subject = agentFor(market.facilitator.url);
    const error = await rejection(subject.agent.pay(market.provider.url));
    expect([error.code, error.retryAfterSec]).to.deep.equal(["RateLimited", 1_800]);
    expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["signed"]);

    market.facilitator.steps.push({ limit: 900 });
    const again = await rejection(subject.agent.pay(market.provider.url));
    expect([again.code, again.retryAfterSec], "posted by an earlier call").to.deep.equal(["PaymentPending", 900]);
    expect(market.facilitator.seen.filter(({ url }) => url === "/authorize")).to.have.length(2);
    expect((await subject.agent.pay(market.provider.url)).receipt?.resumed).to.equal(true);
    expect([transfersSigned(subject), market.chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("D1 a rate limit behind a lost answer leaves the outcome unknown", async () => {
    market.facilitator.steps.push("settle_then_drop", { limit: 1_800 });
    const subject = agentFor(market.facilitator.url);
    const error = await rejection(subject.agent.pay(market.provider.url));
    expect([error.code, error.retryAfterSec]).to.deep.equal(["PaymentPending", 1_800]);
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect([transfersSigned(subject), market.chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("D1 the provider drops, answers 502 and 402: the same proof again, one payment", async () => {
    market.provider.steps.push("drop", "502", "402");
    const subject = agentFor(market.facilitator.url);
    const response = await subject.agent.pay(market.provider.url);
    expect(response.status).to.equal(200);
    const proofs = new Set(market.provider.seen.map(({ headers }) => headers["x-payment"]).filter(Boolean));
    expect(proofs.size).to.equal(1);
    expect([transfersSigned(subject), market.chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("D2 outcome unknown and status unreadable: held, never signed again, presented by the next call", async () => {
    market.facilitator.steps.push(...Array.from({ length: 40 }, () => "settle_then_drop" as const));
    market.facilitator.statusReadable = false;
    const subject = agentFor(market.facilitator.url, { limits: impatient });
    const error = await rejection(subject.agent.pay(market.provider.url));
    expect(error.code).to.equal("PaymentPending");
    expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["signed"]);
    expect((await rejection(subject.agent.pay(market.provider.url))).code).to.equal("PaymentPending");

    market.facilitator.steps.length = 0;
    const response = await subject.agent.pay(market.provider.url);
    expect([response.status, response.receipt?.resumed]).to.deep.equal([200, true]);
    expect([transfersSigned(subject), market.chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("D2 a Facilitator that answers with a proof of another payment leaves the outcome unknown", async () => {
    const stranger = addressOf("stranger");
    for (const forge of [
      { payTo: stranger },
      { payer: stranger },
      { token: stranger },
      { amount: 1n },
      { memo: "AAAAAAAAAAAAAAAAAAAAAA.k1.1.AAAAAAAAAAAAAAAAAAAAAA" },
      { resource: `${market.provider.url}/other` },
      { network: "local-1" },
    ]) {
      market.facilitator.steps.push(...Array.from({ length: 40 }, () => ({ forge })));
      const subject = agentFor(market.facilitator.url, { limits: impatient });
      const error = await rejection(subject.agent.pay(market.provider.url));
      expect(error.code, Object.keys(forge)[0]).to.equal("PaymentPending");
      market.facilitator.steps.length = 0;
    }
    expect(market.provider.seen.some(({ headers }) => headers["x-payment"])).to.equal(false);
  });

  it("D3 an abort does not free a budget that may be spent", async () => {
    const subject = agentFor(market.facilitator.url, {
      policy: { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] },
      sleep: async (_ms, signal) => signal?.throwIfAborted(),
      onEvent: (event) => {
        if (event.type === "payment.pending") caller.abort();
      },
    });
    const caller = new AbortController();
    market.facilitator.steps.push("pending", "pending");
    let aborted: unknown;
    await subject.agent.pay(market.provider.url, { signal: caller.signal }).catch((error: unknown) => {
      aborted = error;
    });
    expect(aborted).to.have.property("name", "AbortError");
    const other = await startProvider(market.chain, market.facilitator.url);
    expect((await rejection(subject.agent.pay(other.url))).reason).to.equal("per_day");
    expect(transfersSigned(subject)).to.equal(1);
  });

  it("D3 a refusal frees the budget when the agent's own RPC says that nothing can move any more, not before", async () => {
    const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };
    market.facilitator.steps.push({ refuse: "PaymentNotAllowed" });
    const rpc = await startChainRpc(market.chain);
    const subject = agentFor(market.facilitator.url, { policy, rpc: rpc.url });
    expect((await rejection(subject.agent.pay(market.provider.url))).code).to.equal("PaymentNotAllowed");
    const other = await startProvider(market.chain, market.facilitator.url);
    expect((await rejection(subject.agent.pay(other.url))).reason, "still held").to.equal("per_day");

    market.chain.nowSec += 3_600;
    market.facilitator.steps.push({ refuse: "PaymentExpired" });
    const response = await subject.agent.pay(market.provider.url);
    expect([response.status, response.receipt?.resumed], "a fresh payment").to.deep.equal([200, false]);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("D3 a Facilitator's word ends a purchase after its window, but never frees its budget", async () => {
    const policy = { perPayment: 500_000n, perDay: 1_000_000n, tokens: [TOKEN] };
    market.facilitator.steps.push({ refuse: "PaymentNotAllowed" });
    const subject = agentFor(market.facilitator.url, { policy });
    expect((await rejection(subject.agent.pay(market.provider.url))).code).to.equal("PaymentNotAllowed");
    market.chain.nowSec += 3_600;
    market.facilitator.steps.push({ refuse: "PaymentExpired" });
    const response = await subject.agent.pay(market.provider.url);
    expect([response.status, response.receipt?.resumed], "a fresh payment").to.deep.equal([200, false]);
    const other = await startProvider(market.chain, market.facilitator.url);
    expect((await rejection(subject.agent.pay(other.url))).reason, "both count").to.equal("per_day");
  });

  it("D4 the server answers 402 while settlement is unknown: no second signature", async () => {
    market.facilitator.steps.push("pending", "drop", "pending");
    market.provider.steps.push("402", "402");
    const subject = agentFor(market.facilitator.url);
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect([transfersSigned(subject), market.facilitator.signatures.size]).to.deep.equal([1, 1]);
  });

  it("D13 paid, but the content is absent: one payment, returned with its receipt", async () => {
    for (const status of [404, 500] as const) {
      market.provider.steps.push(String(status) as "404" | "500");
      const before = market.chain.transfers.length;
      const response = await agentFor(market.facilitator.url).agent.pay(`${market.provider.url}/${status}`);
      expect(response.status).to.equal(status);
      expect(response.receipt?.amount).to.equal(500_000n);
      expect(market.chain.transfers.length - before).to.equal(1);
    }
  });

  it("D13 after a 500 the next call presents the same payment", async () => {
    market.provider.steps.push("500");
    const { agent } = agentFor(market.facilitator.url);
    expect((await agent.pay(market.provider.url)).status).to.equal(500);
    expect((await agent.pay(market.provider.url)).status).to.equal(200);
    expect(market.chain.transfers).to.have.length(1);
  });

  for (const status of [404, 500, 503]) {
    it(`D13 HA25 a ${status} whose payment is refunded ends it: it is not presented again, and a next call is a purchase of its own`, async () => {
      market.provider.steps.push({ failedAndRefunded: status });
      const { agent } = agentFor(market.facilitator.url);
      const failed = await agent.pay(market.provider.url);
      expect([failed.status, failed.receipt?.amount]).to.deep.equal([status, 500_000n]);
      expect((await agent.pay(market.provider.url)).status).to.equal(200);
      expect(market.chain.transfers).to.have.length(2);
    });
  }

  it("D13 HA25 a payment that the provider calls refunded is reported once, and not paid again by that call", async () => {
    market.provider.steps.push("500", "refunded");
    const { agent } = agentFor(market.facilitator.url);
    expect((await agent.pay(market.provider.url)).status).to.equal(500);
    expect((await rejection(agent.pay(market.provider.url))).reason).to.equal("refunded");
    expect(market.chain.transfers).to.have.length(1);
    expect((await agent.pay(market.provider.url)).status).to.equal(200);
    expect(market.chain.transfers).to.have.length(2);
  });

  it("D13 served, but the answer was lost: reported as used, not paid again", async () => {
    market.provider.steps.push("serve_then_drop");
    const subject = agentFor(market.facilitator.url);
    const error = await rejection(subject.agent.pay(market.provider.url));
    expect([error.code, error.reason]).to.deep.equal(["PaymentAlreadyUsed", "already_used"]);
    expect(error.details).to.have.property("paymentId");
    expect(market.chain.transfers).to.have.length(1);
  });

  it("D13 the provider vanishes after payment: reported, and presented by the next call", async () => {
    market.provider.steps.push("drop", "drop", "drop");
    const subject = agentFor(market.facilitator.url, { limits: impatient });
    const error = await rejection(subject.agent.pay(market.provider.url));
    expect(error.code).to.equal("Unavailable");
    expect(error.details).to.have.property("transaction");
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("D17 the same purchase key after all state is lost: the token refuses the second transfer", async () => {
    const first = agentFor(market.facilitator.url);
    expect((await first.agent.pay(market.provider.url, { idempotencyKey: "invoice 1" })).status).to.equal(200);
    const reborn = agentFor(market.facilitator.url, { ledger: memoryLedger() });
    const error = await rejection(reborn.agent.pay(market.provider.url, { idempotencyKey: "invoice 1" }));
    expect(error.reason).to.equal("already_used");
    expect(market.chain.transfers).to.have.length(1);
    expect((await reborn.agent.pay(market.provider.url, { idempotencyKey: "invoice 2" })).status).to.equal(200);
    expect(market.chain.transfers).to.have.length(2);
  });

  it("D17 a purchase that was paid but not served is served to the agent that lost its state", async () => {
    market.provider.steps.push("drop", "drop", "drop");
    const first = agentFor(market.facilitator.url, { limits: impatient });
    await rejection(first.agent.pay(market.provider.url, { idempotencyKey: "invoice 1" }));
    market.chain.nowSec += 30;
    const reborn = agentFor(market.facilitator.url);
    expect((await reborn.agent.pay(market.provider.url, { idempotencyKey: "invoice 1" })).status).to.equal(200);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("D5 a price that grows with every 402: one signature, at the first price", async () => {
    let price = 100_000n;
    const greedy = await startProvider(market.chain, market.facilitator.url, {
      tamper: (entry) => {
        price *= 2n;
        return { ...entry, amount: price.toString(), maxAmountRequired: price.toString() };
      },
    });
    greedy.steps.push(...Array.from({ length: 20 }, () => "402" as const));
    const subject = agentFor(market.facilitator.url);
    expect((await rejection(subject.agent.pay(greedy.url))).code).to.equal("InvalidPaymentProof");
    expect(market.chain.transfers.map(({ value }) => value)).to.deep.equal([200_000n]);
    expect(greedy.seen.length).to.be.lessThan(8);
  });

  it("D5 a purchase key is not paid above the price that it was first quoted", async () => {
    const ledger = memoryLedger();
    let price = 500_000n;
    const dearer = await startProvider(market.chain, market.facilitator.url, {
      tamper: (entry) => ({ ...entry, amount: price.toString(), maxAmountRequired: price.toString() }),
    });
    market.facilitator.steps.push({ refuse: "PaymentNotAllowed" });
    const subject = agentFor(market.facilitator.url, { ledger });
    await rejection(subject.agent.pay(dearer.url, { idempotencyKey: "k" }));
    market.chain.nowSec += 3_600;
    price = 500_001n;
    market.facilitator.steps.push({ refuse: "PaymentExpired" });
    expect((await rejection(subject.agent.pay(dearer.url, { idempotencyKey: "k" }))).reason).to.equal("price_raised");
    expect(market.chain.transfers).to.have.length(0);
  });

  it("D5 an endless 402 body, and one that never ends: refused in bounded time", async () => {
    const endless = await serve(() => ({
      status: 402,
      json: { version: "1", accepts: [], message: "x".repeat(1_000_000) },
    }));
    const subject = agentFor(market.facilitator.url);
    expect((await rejection(subject.agent.pay(endless.url))).reason).to.equal("quote");
    expect(subject.signed).to.deep.equal([]);
  });

  it("B8 a payment that the chain gave up settles again by the same authorization", async () => {
    market.provider.steps.push("reversed");
    const subject = agentFor(market.facilitator.url);
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect([transfersSigned(subject), market.facilitator.signatures.size, market.chain.transfers.length]).to.deep.equal(
      [1, 1, 1],
    );
    expect(market.facilitator.seen.filter(({ url }) => url === "/authorize")).to.have.length(2);
  });

  it("asks for the outcome of held payments, and gives one up only on request", async () => {
    market.facilitator.steps.push(...Array.from({ length: 40 }, () => "settle_then_drop" as const));
    const subject = agentFor(market.facilitator.url, { limits: impatient });
    await rejection(subject.agent.pay(market.provider.url));
    market.facilitator.steps.length = 0;
    const [held] = await subject.agent.settleHeld();
    expect(held).to.include({ state: "settled", amount: 500_000n });
    expect(await rejection(subject.agent.giveUp(`0x${"77".repeat(32)}`))).to.include({ code: "UnknownObject" });
    await subject.agent.giveUp(held?.paymentId ?? "0x");
    expect((await subject.agent.pay(market.provider.url)).receipt?.resumed).to.equal(false);
    expect(market.chain.transfers).to.have.length(2);
  });
});
