import { readFileSync } from "node:fs";
import { expect } from "chai";
import { type AgentEvent, memoryLedger } from "turnpike/agent";
import type { Hex } from "turnpike/protocol";
import { rejection } from "./support/rejection";
import { PRICE, type Relay, startRelay } from "./support/relay";
import { addressOf, agentFor, CHAIN_ID, marketBeforeEach, startProvider, testKey } from "./support/world";

const typesOf = ({ events }: { events: readonly AgentEvent[] }) => events.map(({ type }) => type);
const textOf = (value: unknown) => JSON.stringify(value, (_key, part) => (typeof part === "bigint" ? `${part}` : part));

describe("events of the agent", () => {
  const market = marketBeforeEach();

  it("report each step of a payment in order", async () => {
    market.facilitator.steps.push("pending", "pending");
    market.provider.steps.push("409");
    const subject = agentFor(market.facilitator.url);
    await subject.agent.pay(`${market.provider.url}/data?q=1`);
    expect(typesOf(subject)).to.deep.equal([
      "payment.quoted",
      "payment.signing",
      "payment.signed",
      "payment.submitted",
      "payment.pending",
      "payment.settled",
      "payment.presented",
      "payment.served",
    ]);
    expect(subject.events[0]).to.deep.equal({
      type: "payment.quoted",
      resource: `${market.provider.url}/data`,
      amount: 500_000n,
      options: 1,
      plans: 0,
    });
    const ids = new Set(subject.events.flatMap((event) => ("paymentId" in event ? [event.paymentId] : [])));
    expect(ids.size).to.equal(1);
  });

  it("report what is held and what a later call resumes", async () => {
    market.facilitator.steps.push(...Array.from({ length: 40 }, () => "settle_then_drop" as const));
    const ledger = memoryLedger();
    const first = agentFor(market.facilitator.url, { ledger, limits: { settleMs: 500 } });
    await rejection(first.agent.pay(market.provider.url));
    expect(typesOf(first).at(-1)).to.equal("payment.held");
    market.facilitator.steps.length = 0;
    const second = agentFor(market.facilitator.url, { ledger });
    await second.agent.pay(market.provider.url);
    expect(typesOf(second)).to.deep.equal([
      "payment.submitted",
      "payment.settled",
      "payment.presented",
      "payment.served",
    ]);
    expect(second.events.every((event) => "resumed" in event && event.resumed)).to.equal(true);
  });

  it("report why nothing was paid", async () => {
    const dear = await startProvider(market.chain, market.facilitator.url, { amount: 1_000_001n });
    const subject = agentFor(market.facilitator.url);
    await rejection(subject.agent.pay(`${dear.url}/a`));
    await subject.agent.fetch(`${dear.url}/b`);
    market.chain.balance = 0n;
    await rejection(subject.agent.pay(`${market.provider.url}/c`));
    const refused = subject.events.filter(({ type }) => type === "payment.refused");
    expect(refused).to.deep.equal([
      { type: "payment.refused", resource: `${dear.url}/a`, code: "PolicyRefused", reason: "limit" },
      { type: "payment.refused", resource: `${dear.url}/b`, code: "PolicyRefused", reason: "limit" },
      { type: "payment.refused", resource: `${market.provider.url}/c`, code: "InsufficientFunds", reason: undefined },
    ]);
    expect(typesOf(subject)).not.to.include("payment.signing");
  });

  it("D15 contain no key, signature, proof, idempotency key, query or text of the server", async () => {
    const canary = "canary-7f3a";
    const evil = await startProvider(market.chain, market.facilitator.url, {
      tamper: (entry) => ({ ...entry, description: canary, extra: { ...(entry.extra as object), note: canary } }),
      body: (body) => ({ ...body, message: canary, name: canary }),
    });
    evil.steps.push("402", "402");
    market.facilitator.steps.push("pending", { refuse: "PaymentNotAllowed" });
    const subject = agentFor(market.facilitator.url);
    const url = `${evil.url}/data?token=${canary}`;
    const init = { method: "POST", body: canary, headers: { authorization: canary }, idempotencyKey: canary };
    await subject.agent.pay(url, init).catch(() => undefined);
    await subject.agent.pay(url, init);
    expect(typesOf(subject)).to.include.members(["payment.signed", "payment.held", "payment.served"]);
    const text = textOf(subject.events);
    const proofs = evil.seen.flatMap(({ headers }) => headers["x-payment"] ?? []) as string[];
    const keys = evil.seen.flatMap(({ headers }) => headers["idempotency-key"] ?? []) as string[];
    expect([proofs.length > 0, keys.length > 0]).to.deep.equal([true, true]);
    const secrets = [canary, testKey("payer").slice(2), ...market.facilitator.signatures, ...proofs, ...keys];
    for (const secret of secrets) expect(text).not.to.include(secret);
  });

  it("are exactly those that docs/guides/agent.md lists", () => {
    const typesIn = (text: string) =>
      [...new Set(text.match(/\b(payment|subscription|approval)\.[a-z_]+(?=["`])/g) ?? [])].sort();
    const [source, page] = ["sdk/src/agent/core/effects.ts", "docs/guides/agent.md"].map((file) =>
      readFileSync(file, "utf8"),
    );
    expect(typesIn(source ?? "").length).to.be.greaterThan(20);
    expect(typesIn(page ?? "")).to.deep.equal(typesIn(source ?? ""));
  });

  describe("of subscriptions", () => {
    let relay: Relay;
    let planId: Hex;
    const subjectOf = () =>
      agentFor(relay.url, {
        policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
        deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      });

    beforeEach(async () => {
      relay = await startRelay();
      planId = await relay.createPlan();
      await relay.fund(addressOf("payer"));
    });

    it("report signup, changes and top-ups, and never the id", async () => {
      relay.steps.push("pending");
      const subject = subjectOf();
      const subscription = await subject.agent.subscribe({ planId });
      expect(typesOf(subject)).to.deep.equal([
        "approval.signing",
        "approval.raised",
        "subscription.signing",
        "subscription.submitted",
        "subscription.pending",
        "subscription.created",
      ]);
      subject.events.length = 0;
      await subject.agent.pause(subscription);
      expect(subject.events.map((event) => [event.type, "act" in event && event.act])).to.deep.equal([
        ["subscription.signing", "pause"],
        ["subscription.submitted", "pause"],
        ["subscription.changed", "pause"],
      ]);
      await subject.agent.resume(subscription);
      await subject.agent.topUp({ whole: true });
      expect(typesOf(subject).at(-1)).to.equal("approval.topped_up");
      const text = textOf(subject.events);
      expect(text).not.to.include(subscription.id.slice(42));
      const signatures = relay.seen.flatMap(({ body }) => body.match(/0x[0-9a-f]{130}/g) ?? []);
      expect(signatures.length).to.be.greaterThan(3);
      for (const signature of signatures) expect(text).not.to.include(signature);
    });

    it("report a refusal by its code", async () => {
      const subject = subjectOf();
      const subscription = await subject.agent.subscribe({ planId });
      await subject.agent.cancel(subscription);
      const { code } = await rejection(subject.agent.resume(subscription));
      const [failed] = subject.events.filter(({ type }) => type === "subscription.failed");
      expect(failed).to.deep.include({ act: "resume", code });
    });
  });
});
