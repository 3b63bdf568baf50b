import { expect } from "chai";
import { HEADER } from "turnpike/protocol";
import { complete } from "../../examples/agent";
import { INTERVAL_SEC, recordOf, spentBy, spentOf, startSandbox, UNIT, until, type World } from "../support/sandbox";

describe("end to end > metered use", function () {
  this.timeout(120_000);
  let world: World;
  let count = 0;

  before(async () => {
    world = await startSandbox();
  });
  after(() => world.stop());

  const subscriber = async (maxOverage: bigint) => {
    const one = await world.agent(`writer ${++count}`);
    const origins = [world.provider.url];
    const subscription = await one.agent.subscribe({ planId: world.plans.small, maxOverage, origins });
    // By hand: an agent retries for a while after it subscribed before it accepts a refusal.
    const call = async (words = 1_000) => {
      const response = await fetch(`${world.provider.url}/complete`, {
        method: "POST",
        headers: { "content-type": "application/json", [HEADER.subscription]: subscription.id },
        body: JSON.stringify({ words }),
      });
      const body = await response.text();
      return { status: response.status, body: JSON.parse(body) as Record<string, string> };
    };
    await until(
      "the first block that the gate has seen it in",
      async () => (await call(0)).status !== 402 || maxOverage === 0n,
    );
    return { ...one, subscription, call };
  };

  it("charges each call by its use until the cap, then answers 402, and serves again once the cap is raised", async () => {
    const { agent, subscription, call } = await subscriber((3n * UNIT) / 2n);
    for (const remaining of ["1000000", "500000", "0"]) {
      expect(await call()).to.deep.equal({ status: 200, body: { words: 1_000, charged: "500000", remaining } });
    }
    const refused = await call();
    expect(refused.status).to.equal(402);
    expect(refused.body).to.include({ error: "AllowanceExhausted" });
    expect(refused.body.message).to.be.a("string").and.not.equal("");
    await agent.setMaxOverage(subscription, 3n * UNIT);
    await until("the service", async () => (await call()).status === 200);
  });

  it("lets an agent call a metered route as it would any other", async () => {
    const { agent } = await subscriber(UNIT);
    const response = await complete(agent, world.provider.url, 200);
    expect(await response.json()).to.deep.equal({ words: 200, charged: "100000", remaining: "900000" });
  });

  it("debits on chain exactly what was charged, no more than the cap", async () => {
    const { address, subscription, call } = await subscriber(2n * UNIT);
    const spent = await spentBy(world, address, async () => {
      // Each reaches the amount at which it is debited soon, together with the other or alone.
      expect((await call(1_000)).status).to.equal(200);
      expect((await call(1_000)).status).to.equal(200);
      await until("the debit", async () => (await spentOf(world, subscription.idHash)) === UNIT);
    });
    expect(spent).to.equal(UNIT);
  });

  it("C13 never charges above the cap when many calls run at once near it", async () => {
    const { address, subscription, call } = await subscriber(UNIT / 2n);
    const before = await world.contracts.balanceOf(address);
    const answers = await Promise.all(Array.from({ length: 10 }, () => call(500)));
    expect(answers.map(({ status }) => status).sort()).to.deep.equal([200, 200, ...Array<number>(8).fill(402)]);
    for (const { body } of answers.filter(({ status }) => status === 402)) {
      expect(body).to.include({ error: "AllowanceExhausted" });
      expect(body.plans).to.have.length(2);
    }
    await until("the debit", async () => (await spentOf(world, subscription.idHash)) === UNIT / 2n);
    expect(before - (await world.contracts.balanceOf(address))).to.equal(UNIT / 2n);
  });

  it("moves to a larger plan with credit for the unused time", async () => {
    const { agent, address, subscription, call } = await subscriber(UNIT / 2n);
    expect((await call()).status).to.equal(200);
    expect((await call()).status).to.equal(402);
    await until("the debit", async () => (await spentOf(world, subscription.idHash)) === UNIT / 2n);
    const spent = await spentBy(world, address, () =>
      agent.changePlan(subscription, { planId: world.plans.large, maxOverage: 2n * UNIT }),
    );
    expect(spent >= 15n * UNIT && spent < 16n * UNIT, `charged ${spent}`).to.equal(true);
    await until("the service", async () => (await call()).status === 200);
  });

  it("serves a subscriber without an allowance nothing that is metered", async () => {
    const { call } = await subscriber(0n);
    expect((await call()).status).to.equal(402);
  });

  it("resets the cap with the cycle", async () => {
    const { call, subscription } = await subscriber(UNIT / 2n);
    expect((await call()).status).to.equal(200);
    expect((await call()).status).to.equal(402);
    await until("the debit", async () => (await spentOf(world, subscription.idHash)) === UNIT / 2n);
    const { paidThroughSec } = await recordOf(world, subscription.idHash);
    await world.chain.advance(INTERVAL_SEC);
    await until(
      "the renewal",
      async () => (await recordOf(world, subscription.idHash)).paidThroughSec > paidThroughSec,
    );
    await until("the service", async () => (await call()).status === 200);
  });
});
