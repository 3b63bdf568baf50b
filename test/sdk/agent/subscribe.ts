import { inspect } from "node:util";
import { expect } from "chai";
import { type Agent, memoryLedger } from "turnpike/agent";
import { type Hex, parseSubscriptionId } from "turnpike/protocol";
import { moodyWallet } from "./support/moody-wallet";
import { rejection } from "./support/rejection";
import { advance, INTERVAL_SEC, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import { addressOf, agentFor, CHAIN_ID } from "./support/world";

describe("agent.subscribe and changes, judged by the contracts", () => {
  let relay: Relay;
  let planId: Hex;
  const payer = addressOf("payer");

  const optionsOf = () => ({
    policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
    deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
  });
  const freshAgent = (overrides: object = {}) => agentFor(relay.url, { ...optionsOf(), ...overrides });
  const charged = async () => (await relay.token.balanceOf(addressOf("treasury"))) as bigint;

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });

  it("creates the subscription by signatures alone, first period paid", async () => {
    const { agent, signed } = freshAgent();
    const subscription = await agent.subscribe({ planId, maxOverage: 5_000_000n });
    expect(subscription).to.include({ status: "ACTIVE", planId, maxOverage: 5_000_000n, secrets: "derived" });
    expect(subscription.existing).to.equal(false);
    expect(parseSubscriptionId(subscription.id)).to.include({ subscriber: payer, idHash: subscription.idHash });
    expect(await charged()).to.equal(PRICE);
    expect(signed.filter((type) => type !== "TurnpikeRoot")).to.deep.equal(["Permit", "Subscribe"]);
  });

  it("bounds the permit to (price + cap) x periods, summed over everything that lives", async () => {
    const other = await relay.createPlan({ amount: 3n * PRICE });
    const { agent } = freshAgent();
    const first = await agent.subscribe({ planId, maxOverage: 5_000_000n });
    expect(await relay.approval(payer)).to.equal((PRICE + 5_000_000n) * 12n - PRICE);
    await agent.subscribe({ planId: other, periods: 2 });
    expect(await relay.approval(payer)).to.equal((PRICE + 5_000_000n) * 12n + 3n * PRICE * 2n - 3n * PRICE);
    await agent.cancel(first);
    const third = await relay.createPlan({ amount: 40n * PRICE });
    await agent.subscribe({ planId: third, periods: 1 });
    expect(await relay.approval(payer), "the cancelled one no longer counts").to.equal(
      3n * PRICE * 2n + 40n * PRICE - 40n * PRICE,
    );
  });

  it("serialises the permits of one wallet: parallel signups all succeed", async () => {
    const plans = [
      planId,
      await relay.createPlan({ amount: 2n * PRICE }),
      await relay.createPlan({ amount: 4n * PRICE }),
    ];
    const { agent } = freshAgent();
    const made = await Promise.all(plans.map((id) => agent.subscribe({ planId: id })));
    expect(made.map(({ status }) => status)).to.deep.equal(["ACTIVE", "ACTIVE", "ACTIVE"]);
    const whole = 7n * PRICE * 12n;
    expect(whole - (await relay.approval(payer)) <= 7n * PRICE).to.equal(true);
  });

  it("returns what it already has instead of buying a second, unless another is asked for", async () => {
    const { agent } = freshAgent();
    const first = await agent.subscribe({ planId });
    const again = await agent.subscribe({ planId, origins: ["https://api.example/path"] });
    expect(again.idHash).to.equal(first.idHash);
    expect(again.existing).to.equal(true);
    expect(again.origins).to.deep.equal(["https://api.example"]);
    const raised = await agent.subscribe({ planId, maxOverage: 7n });
    expect([raised.idHash, raised.maxOverage, raised.existing]).to.deep.equal([first.idHash, 7n, true]);
    const another = await agent.subscribe({ planId, another: true });
    expect(another.idHash).not.to.equal(first.idHash);
    expect(await charged()).to.equal(2n * PRICE);
  });

  it("refuses a second subscription beside a paused one, and names the remedy", async () => {
    const { agent } = freshAgent();
    const first = await agent.subscribe({ planId });
    await agent.pause(first);
    const error = await rejection(agent.subscribe({ planId, origins: ["https://api.example"] }));
    expect([error.code, error.reason, error.details.idHash]).to.deep.equal([
      "SubscriptionNotActive",
      "paused",
      first.idHash,
    ]);
    expect(error.message).to.include(`agent.resume("${first.idHash}")`);
    expect(inspect(error)).not.to.include(first.id.slice(42));
    expect(await charged()).to.equal(PRICE);

    const lost = freshAgent();
    expect((await rejection(lost.agent.subscribe({ planId }))).details.idHash, "a lost ledger").to.equal(first.idHash);
    expect(lost.signed).not.to.include("Subscribe");
    expect((await lost.agent.resume(first.idHash)).status).to.equal("ACTIVE");
    expect(await lost.agent.subscribe({ planId })).to.include({ idHash: first.idHash, existing: true });
    expect(await charged()).to.equal(PRICE);
  });

  it("buys another one beside a paused one where the caller asks for it, or for another wallet", async () => {
    const ledger = memoryLedger();
    const { agent } = freshAgent({ ledger });
    const first = await agent.subscribe({ planId });
    await agent.pause(first);
    const another = await agent.subscribe({ planId, another: true });
    expect(another).to.include({ status: "ACTIVE", existing: false });
    expect((await agent.subscribe({ planId })).idHash, "the active one counts").to.equal(another.idHash);
    await relay.fund(addressOf("second"));
    const theirs = await freshAgent({ ledger, role: "second" }).agent.subscribe({ planId });
    expect(theirs).to.include({ subscriber: addressOf("second"), existing: false });
  });

  it("refuses a second subscription beside one that is past due, and buys another once it has lapsed or ended", async () => {
    const { agent } = freshAgent();
    const first = await agent.subscribe({ planId });
    await advance(INTERVAL_SEC + 3_600 + 10);
    expect((await agent.list()).map(({ status }) => status)).to.deep.equal(["PAST_DUE"]);
    const error = await rejection(agent.subscribe({ planId }));
    expect([error.reason, error.details.idHash]).to.deep.equal(["past_due", first.idHash]);
    expect(error.message).to.include("renew");
    await advance(INTERVAL_SEC);
    const second = await agent.subscribe({ planId });
    expect(second.idHash).not.to.equal(first.idHash);
    await agent.cancel(second, { atPeriodEnd: true });
    expect(await agent.subscribe({ planId })).to.include({ idHash: second.idHash, ending: true, existing: true });
    await agent.cancel(second);
    expect((await agent.subscribe({ planId })).existing).to.equal(false);
    expect(await charged()).to.equal(3n * PRICE);
  });

  it("derives the same ids again after everything but the wallet is lost", async () => {
    const first = await freshAgent().agent.subscribe({ planId });
    const second = await freshAgent().agent.subscribe({ planId, another: true });
    const reborn = freshAgent().agent;
    const found = await reborn.recover({ planId });
    expect(found.map(({ id }) => id)).to.deep.equal([first.id, second.id]);
    expect(found.map(({ origins }) => origins)).to.deep.equal([[], []]);
    expect((await freshAgent().agent.subscribe({ planId })).existing, "not bought again").to.equal(true);
  });

  it("recovers past tombstones, and stops after five numbers that nobody used", async () => {
    const { agent } = freshAgent();
    for (let i = 0; i < 7; i++) await agent.cancel(await agent.subscribe({ planId }));
    const last = await agent.subscribe({ planId });
    const asked = relay.seen.length;
    const found = await freshAgent().agent.recover({ planId });
    expect(found.map(({ id }) => id)).to.deep.equal([last.id]);
    const lookUps = relay.seen.slice(asked).filter(({ url }) => url.startsWith("/subscriptions/"));
    expect(lookUps).to.have.length(8 + 5);
  });

  it("keeps random secrets in the ledger when the wallet's signatures differ, and says so", async () => {
    const moody = moodyWallet("payer");
    const ledger = memoryLedger();
    const subscription = await freshAgent({ wallet: moody, ledger }).agent.subscribe({ planId });
    expect(subscription.secrets).to.equal("random");
    expect(await freshAgent({ wallet: moody }).agent.recover({ planId })).to.deep.equal([]);
    const [listed] = await freshAgent({ wallet: moody, ledger }).agent.list();
    expect(listed?.id).to.equal(subscription.id);
  });

  it("posts the same signup again while its outcome is unknown, and creates one", async () => {
    relay.steps.push("drop", "pending", "relay_then_drop");
    const { agent, signed } = freshAgent();
    const subscription = await agent.subscribe({ planId });
    expect(subscription.status).to.equal("ACTIVE");
    expect(signed.filter((type) => type === "Subscribe")).to.have.length(1);
    expect(await charged()).to.equal(PRICE);
  });

  it("rejects with RateLimited when a rate limit refuses the first post, and posts the same signup later", async () => {
    relay.steps.push({ limit: 1_800 });
    const { agent, signed } = freshAgent();
    const error = await rejection(agent.subscribe({ planId }));
    expect([error.code, error.retryAfterSec]).to.deep.equal(["RateLimited", 1_800]);
    expect(error.message).to.include("nothing was submitted");
    relay.steps.push({ limit: 900 });
    const posts = () => relay.seen.filter(({ method }) => method === "POST").length;
    const before = posts();
    const again = await rejection(agent.subscribe({ planId }));
    expect([again.code, again.retryAfterSec], "posted by an earlier call").to.deep.equal(["PaymentPending", 900]);
    expect(posts()).to.equal(before + 1);
    expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    expect(signed.filter((type) => type === "Subscribe")).to.have.length(1);
    expect(await charged()).to.equal(PRICE);
  });

  it("holds a signup whose outcome stays unknown, and takes it up in the next call", async () => {
    relay.steps.push(...Array.from({ length: 4 }, () => "drop" as const));
    const ledger = memoryLedger();
    const first = freshAgent({ ledger, limits: { settleMs: 1_000 } });
    expect((await rejection(first.agent.subscribe({ planId }))).code).to.equal("PaymentPending");
    relay.steps.length = 0;
    const second = freshAgent({ ledger });
    expect((await second.agent.subscribe({ planId })).status).to.equal("ACTIVE");
    expect(second.signed.filter((type) => type === "Subscribe")).to.have.length(0);
    expect(await charged()).to.equal(PRICE);
  });

  it("refuses terms that do not belong to the planId, and a contract that is not its own", async () => {
    const subject = freshAgent();
    relay.lieAboutPlan = (plan) => ({ ...plan, amount: "1" });
    expect((await rejection(subject.agent.subscribe({ planId }))).reason).to.equal("plan_terms");
    relay.lieAboutPlan = (plan) => ({ ...plan, turnpike: addressOf("stranger") });
    expect((await rejection(subject.agent.subscribe({ planId }))).reason).to.equal("turnpike");
    expect(subject.signed).to.deep.equal([]);
  });

  it("refuses a price and cap above perSubscription, and periods without bound, before signing", async () => {
    const policy = { ...optionsOf().policy, perSubscription: PRICE };
    const subject = freshAgent({ policy });
    const refused = await rejection(subject.agent.subscribe({ planId, maxOverage: 1n }));
    expect([refused.reason, refused.message.includes("above policy.perSubscription")]).to.deep.equal(["limit", true]);
    const byDay = freshAgent({ policy: { ...optionsOf().policy, perDay: PRICE - 1n } });
    const limited = await rejection(byDay.agent.subscribe({ planId }));
    expect(limited.message).to.include("above policy.perDay (").and.include("policy.perSubscription is not set");
    expect((await rejection(subject.agent.subscribe({ planId, periods: 1e9 }))).reason).to.equal("periods");
    expect(subject.signed.filter((type) => type !== "TurnpikeRoot")).to.deep.equal([]);
  });

  it("says PlanDeprecated with the successor, before signing", async () => {
    const successor = await relay.createPlan();
    await relay.deprecate(planId, successor);
    const subject = freshAgent();
    const error = await rejection(subject.agent.subscribe({ planId }));
    expect([error.code, error.details.successor]).to.deep.equal(["PlanDeprecated", successor]);
    expect(subject.signed).not.to.include("Subscribe");
  });

  it("says InsufficientFunds before it signs", async () => {
    const subject = freshAgent({ role: "pauper" });
    const error = await rejection(subject.agent.subscribe({ planId }));
    expect(error.code).to.equal("InsufficientFunds");
    expect(subject.signed).not.to.include("Subscribe");
  });

  it("counts the first period against the daily budget", async () => {
    const subject = freshAgent({ policy: { ...optionsOf().policy, perDay: PRICE * 2n - 1n } });
    await subject.agent.subscribe({ planId });
    expect((await rejection(subject.agent.subscribe({ planId, another: true }))).reason).to.equal("per_day");
  });

  it("shows no id when it is printed in passing", async () => {
    const subscription = await freshAgent().agent.subscribe({ planId });
    expect(inspect(subscription)).not.to.include(subscription.id.slice(42));
  });

  describe("changes", () => {
    let agent: Agent;
    let ref: Hex;

    beforeEach(async () => {
      agent = freshAgent().agent;
      ref = (await agent.subscribe({ planId, maxOverage: 5_000_000n })).id;
    });

    it("pauses and resumes within the paid period for nothing", async () => {
      expect((await agent.pause(ref)).status).to.equal("PAUSED");
      expect((await agent.resume(ref)).status).to.equal("ACTIVE");
      expect(await charged()).to.equal(PRICE);
    });

    it("resumes after the period for the price, at most", async () => {
      await agent.pause(ref);
      await advance(INTERVAL_SEC + 10);
      expect((await agent.resume(ref)).status).to.equal("ACTIVE");
      expect(await charged()).to.equal(2n * PRICE);
    });

    it("cancels at the period's end, or at once", async () => {
      expect(await agent.cancel(ref, { atPeriodEnd: true })).to.include({ status: "ACTIVE", ending: true });
      expect((await agent.cancel(ref)).status).to.equal("CANCELLED");
      expect(await agent.list()).to.deep.equal([]);
    });

    it("raises the cap with the approval it needs", async () => {
      expect((await agent.setMaxOverage(ref, 50_000_000n)).maxOverage).to.equal(50_000_000n);
      expect(await relay.approval(payer)).to.equal((PRICE + 50_000_000n) * 12n);
    });

    it("changes the plan at the quoted charge", async () => {
      const dearer = await relay.createPlan({ amount: 3n * PRICE });
      const changed = await agent.changePlan(ref, { planId: dearer });
      expect(changed).to.include({ planId: dearer, status: "ACTIVE", amount: 3n * PRICE });
      const paid = (await charged()) - PRICE;
      expect(paid >= 2n * PRICE && paid < 2n * PRICE + 10_000n).to.equal(true);
    });

    it("pays the new plan's payee", async () => {
      const stranger = addressOf("stranger");
      const elsewhere = await relay.createPlan({ amount: 3n * PRICE, payTo: stranger });
      expect(await agent.changePlan(ref, { planId: elsewhere })).to.include({ planId: elsewhere, payTo: stranger });
      expect((await relay.token.balanceOf(stranger)) > 0n).to.equal(true);
    });

    it("rekeys to a secret that recovery finds, and follows old references", async () => {
      const moved = await agent.rekey(ref);
      expect(moved.id).not.to.equal(ref);
      expect(moved).to.include({ status: "ACTIVE", maxOverage: 5_000_000n });
      expect((await agent.pause(ref)).idHash).to.equal(moved.idHash);
      const found = await freshAgent().agent.recover({ planId });
      expect(found.map(({ id }) => id)).to.deep.equal([moved.id]);
    });

    it("reads a stale version again once", async () => {
      const other = freshAgent().agent;
      await other.recover({ planId });
      const [mine, theirs] = await Promise.allSettled([agent.setMaxOverage(ref, 1n), other.setMaxOverage(ref, 2n)]);
      expect([mine.status, theirs.status]).to.deep.equal(["fulfilled", "fulfilled"]);
    });

    it("does not act twice when the answer of a change is lost", async () => {
      relay.steps.push("relay_then_drop");
      expect((await agent.pause(ref)).status).to.equal("PAUSED");
      const [state] = await agent.list();
      expect(state?.version).to.equal(1);
    });

    it("rejects with RateLimited what a rate limit refuses at first, and stays pending behind a lost answer", async () => {
      relay.steps.push({ limit: 1_800 });
      const refused = await rejection(agent.pause(ref));
      expect([refused.code, refused.retryAfterSec]).to.deep.equal(["RateLimited", 1_800]);
      relay.steps.push("drop", { limit: 1_800 });
      const unsure = await rejection(agent.pause(ref));
      expect([unsure.code, unsure.retryAfterSec]).to.deep.equal(["PaymentPending", 1_800]);
      const dear = await relay.createPlan({ amount: 30n * PRICE });
      await agent.subscribe({ planId: dear, periods: 2 });
      relay.steps.push({ limit: 60 });
      expect((await rejection(agent.topUp())).code).to.equal("RateLimited");
      expect((await agent.pause(ref)).status).to.equal("PAUSED");
    });

    it("tops up an approval that covers less than two more periods, to all of them", async () => {
      const dear = await relay.createPlan({ amount: 30n * PRICE });
      await agent.subscribe({ planId: dear, periods: 2 });
      const share = (PRICE + 5_000_000n) * 12n + 30n * PRICE * 2n;
      expect(await relay.approval(payer), "one period of each is gone").to.equal(share - 30n * PRICE);
      const [done] = await agent.topUp();
      expect(done?.transaction).to.match(/^0x[0-9a-f]{64}$/);
      expect([done?.approval, await relay.approval(payer)]).to.deep.equal([share, share]);
    });

    it("tops up an approval only when it is low", async () => {
      const before = await relay.approval(payer);
      expect((await agent.topUp())[0]?.transaction).to.equal(undefined);
      expect(await relay.approval(payer)).to.equal(before);
      const [done] = await agent.topUp({ whole: true });
      expect(done?.approval).to.equal((PRICE + 5_000_000n) * 12n);
    });
  });
});
