import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import { rejection } from "./support/rejection";
import { closeAll, serve } from "./support/servers";
import {
  addressOf,
  agentFor,
  Chain,
  type FacilitatorStandIn,
  type ProviderStandIn,
  startFacilitator,
  startProvider,
  TOKEN,
  transfersSigned,
} from "./support/world";

const impatient = { settleMs: 2_000, presentations: 3 };

describe("the agent pays at most once", () => {
  let chain: Chain;
  let facilitator: FacilitatorStandIn;
  let provider: ProviderStandIn;

  beforeEach(async () => {
    chain = new Chain();
    facilitator = await startFacilitator(chain);
    provider = await startProvider(chain, facilitator.url);
  });
  afterEach(closeAll);

  it("D1 settled, then the answer was lost: the same authorization again, one payment", async () => {
    facilitator.steps.push("settle_then_drop", "drop", "502");
    const subject = agentFor(facilitator.url);
    expect((await subject.agent.pay(provider.url)).status).to.equal(200);
    expect(facilitator.signatures.size).to.equal(1);
    expect(chain.transfers).to.have.length(1);
  });

  it("D1 the provider drops, answers 502 and 402: the same proof again, one payment", async () => {
    provider.steps.push("drop", "502", "402");
    const subject = agentFor(facilitator.url);
    const response = await subject.agent.pay(provider.url);
    expect(response.status).to.equal(200);
    const proofs = new Set(provider.seen.map(({ headers }) => headers["x-payment"]).filter(Boolean));
    expect(proofs.size).to.equal(1);
    expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("D2 outcome unknown and status unreadable: held, never signed again, presented by the next call", async () => {
    facilitator.steps.push(...Array.from({ length: 40 }, () => "settle_then_drop" as const));
    facilitator.statusReadable = false;
    const subject = agentFor(facilitator.url, { limits: impatient });
    const error = await rejection(subject.agent.pay(provider.url));
    expect(error.code).to.equal("PaymentPending");
    expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["signed"]);
    expect((await rejection(subject.agent.pay(provider.url))).code).to.equal("PaymentPending");

    facilitator.steps.length = 0;
    const response = await subject.agent.pay(provider.url);
    expect([response.status, response.receipt?.resumed]).to.deep.equal([200, true]);
    expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("D2 a Facilitator that answers with a proof of another payment leaves the outcome unknown", async () => {
    const stranger = addressOf("stranger");
    for (const forge of [
      { payTo: stranger },
      { payer: stranger },
      { token: stranger },
      { amount: 1n },
      { memo: "AAAAAAAAAAAAAAAAAAAAAA.k1.1.AAAAAAAAAAAAAAAAAAAAAA" },
      { resource: `${provider.url}/other` },
      { network: "local-1" },
    ]) {
      facilitator.steps.push(...Array.from({ length: 40 }, () => ({ forge })));
      const subject = agentFor(facilitator.url, { limits: impatient });
      const error = await rejection(subject.agent.pay(provider.url));
      expect(error.code, Object.keys(forge)[0]).to.equal("PaymentPending");
      facilitator.steps.length = 0;
    }
    expect(provider.seen.some(({ headers }) => headers["x-payment"])).to.equal(false);
  });

  it("D3 an abort does not free a budget that may be spent", async () => {
    const subject = agentFor(facilitator.url, {
      policy: { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] },
      sleep: async (_ms, signal) => signal?.throwIfAborted(),
      onEvent: (event) => {
        if (event.type === "payment.pending") caller.abort();
      },
    });
    const caller = new AbortController();
    facilitator.steps.push("pending", "pending");
    let aborted: unknown;
    await subject.agent.pay(provider.url, { signal: caller.signal }).catch((error: unknown) => {
      aborted = error;
    });
    expect(aborted).to.have.property("name", "AbortError");
    const other = await startProvider(chain, facilitator.url);
    expect((await rejection(subject.agent.pay(other.url))).reason).to.equal("per_day");
    expect(transfersSigned(subject)).to.equal(1);
  });

  it("D3 a refusal frees the budget only when the authorization can never move money", async () => {
    const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };
    facilitator.steps.push({ refuse: "PaymentNotAllowed" });
    const subject = agentFor(facilitator.url, { policy });
    expect((await rejection(subject.agent.pay(provider.url))).code).to.equal("PaymentNotAllowed");
    const other = await startProvider(chain, facilitator.url);
    expect((await rejection(subject.agent.pay(other.url))).reason, "still held").to.equal("per_day");

    chain.nowSec += 3_600;
    facilitator.steps.push({ refuse: "PaymentExpired" });
    const response = await subject.agent.pay(provider.url);
    expect([response.status, response.receipt?.resumed], "a fresh payment").to.deep.equal([200, false]);
    expect(chain.transfers).to.have.length(1);
  });

  it("D4 the server answers 402 while settlement is unknown: no second signature", async () => {
    facilitator.steps.push("pending", "drop", "pending");
    provider.steps.push("402", "402");
    const subject = agentFor(facilitator.url);
    expect((await subject.agent.pay(provider.url)).status).to.equal(200);
    expect([transfersSigned(subject), facilitator.signatures.size]).to.deep.equal([1, 1]);
  });

  it("D13 paid, but the content is absent: one payment, returned with its receipt", async () => {
    for (const status of [404, 500] as const) {
      provider.steps.push(String(status) as "404" | "500");
      const before = chain.transfers.length;
      const response = await agentFor(facilitator.url).agent.pay(`${provider.url}/${status}`);
      expect(response.status).to.equal(status);
      expect(response.receipt?.amount).to.equal(500_000n);
      expect(chain.transfers.length - before).to.equal(1);
    }
  });

  it("D13 after a 500 the next call presents the same payment", async () => {
    provider.steps.push("500");
    const { agent } = agentFor(facilitator.url);
    expect((await agent.pay(provider.url)).status).to.equal(500);
    expect((await agent.pay(provider.url)).status).to.equal(200);
    expect(chain.transfers).to.have.length(1);
  });

  it("D13 served, but the answer was lost: reported as used, not paid again", async () => {
    provider.steps.push("serve_then_drop");
    const subject = agentFor(facilitator.url);
    const error = await rejection(subject.agent.pay(provider.url));
    expect([error.code, error.reason]).to.deep.equal(["InvalidPaymentProof", "already_used"]);
    expect(error.details).to.have.property("paymentId");
    expect(chain.transfers).to.have.length(1);
  });

  it("D13 the provider vanishes after payment: reported, and presented by the next call", async () => {
    provider.steps.push("drop", "drop", "drop");
    const subject = agentFor(facilitator.url, { limits: impatient });
    const error = await rejection(subject.agent.pay(provider.url));
    expect(error.code).to.equal("Unavailable");
    expect(error.details).to.have.property("transaction");
    expect((await subject.agent.pay(provider.url)).status).to.equal(200);
    expect(chain.transfers).to.have.length(1);
  });

  it("D17 the same purchase key after all state is lost: the token refuses the second transfer", async () => {
    const first = agentFor(facilitator.url);
    expect((await first.agent.pay(provider.url, { idempotencyKey: "invoice 1" })).status).to.equal(200);
    const reborn = agentFor(facilitator.url, { ledger: memoryLedger() });
    const error = await rejection(reborn.agent.pay(provider.url, { idempotencyKey: "invoice 1" }));
    expect(error.reason).to.equal("already_used");
    expect(chain.transfers).to.have.length(1);
    expect((await reborn.agent.pay(provider.url, { idempotencyKey: "invoice 2" })).status).to.equal(200);
    expect(chain.transfers).to.have.length(2);
  });

  it("D17 a purchase that was paid but not served is served to the agent that lost its state", async () => {
    provider.steps.push("drop", "drop", "drop");
    const first = agentFor(facilitator.url, { limits: impatient });
    await rejection(first.agent.pay(provider.url, { idempotencyKey: "invoice 1" }));
    chain.nowSec += 30;
    const reborn = agentFor(facilitator.url);
    expect((await reborn.agent.pay(provider.url, { idempotencyKey: "invoice 1" })).status).to.equal(200);
    expect(chain.transfers).to.have.length(1);
  });

  it("D5 a price that grows with every 402: one signature, at the first price", async () => {
    let price = 100_000n;
    const greedy = await startProvider(chain, facilitator.url, {
      tamper: (entry) => {
        price *= 2n;
        return { ...entry, amount: price.toString(), maxAmountRequired: price.toString() };
      },
    });
    greedy.steps.push(...Array.from({ length: 20 }, () => "402" as const));
    const subject = agentFor(facilitator.url);
    expect((await rejection(subject.agent.pay(greedy.url))).code).to.equal("InvalidPaymentProof");
    expect(chain.transfers.map(({ value }) => value)).to.deep.equal([200_000n]);
    expect(greedy.seen.length).to.be.lessThan(8);
  });

  it("D5 a purchase key is not paid above the price that it was first quoted", async () => {
    const ledger = memoryLedger();
    let price = 500_000n;
    const dearer = await startProvider(chain, facilitator.url, {
      tamper: (entry) => ({ ...entry, amount: price.toString(), maxAmountRequired: price.toString() }),
    });
    facilitator.steps.push({ refuse: "PaymentNotAllowed" });
    const subject = agentFor(facilitator.url, { ledger });
    await rejection(subject.agent.pay(dearer.url, { idempotencyKey: "k" }));
    chain.nowSec += 3_600;
    price = 500_001n;
    facilitator.steps.push({ refuse: "PaymentExpired" });
    expect((await rejection(subject.agent.pay(dearer.url, { idempotencyKey: "k" }))).reason).to.equal("price_raised");
    expect(chain.transfers).to.have.length(0);
  });

  it("D5 an endless 402 body, and one that never ends: refused in bounded time", async () => {
    const endless = await serve(() => ({
      status: 402,
      json: { version: "1", accepts: [], message: "x".repeat(1_000_000) },
    }));
    const subject = agentFor(facilitator.url);
    expect((await rejection(subject.agent.pay(endless.url))).reason).to.equal("quote");
    expect(subject.signed).to.deep.equal([]);
  });

  it("B8 a payment that the chain gave up settles again by the same authorization", async () => {
    provider.steps.push("reversed");
    const subject = agentFor(facilitator.url);
    expect((await subject.agent.pay(provider.url)).status).to.equal(200);
    expect([transfersSigned(subject), facilitator.signatures.size, chain.transfers.length]).to.deep.equal([1, 1, 1]);
    expect(facilitator.seen.filter(({ url }) => url === "/authorize")).to.have.length(2);
  });

  it("asks for what is held, and gives up only when it is told to", async () => {
    facilitator.steps.push(...Array.from({ length: 40 }, () => "settle_then_drop" as const));
    const subject = agentFor(facilitator.url, { limits: impatient });
    await rejection(subject.agent.pay(provider.url));
    facilitator.steps.length = 0;
    const [held] = await subject.agent.settleHeld();
    expect(held).to.include({ state: "settled", amount: 500_000n });
    await subject.agent.giveUp(held?.paymentId ?? "0x");
    expect((await subject.agent.pay(provider.url)).receipt?.resumed).to.equal(false);
    expect(chain.transfers).to.have.length(2);
  });
});
