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
    const call = async (words = 1_000) => {
      const response = await complete(one.agent, world.provider.url, words);
      return { status: response.status, body: (await response.json()) as Record<string, string> };
    };
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
    expect((await call()).status).to.equal(200);
  });

  it("debits on chain exactly what was charged, no more than the cap", async () => {
    const { address, subscription, call } = await subscriber(2n * UNIT);
    const spent = await spentBy(world, address, async () => {
      expect((await call(1_000)).status).to.equal(200);
      expect((await call(500)).status).to.equal(200);
      await until("the debit", async () => (await spentOf(world, subscription.idHash)) === 750_000n);
    });
    expect(spent).to.equal(750_000n);
  });

  it("C13 never charges above the cap when many calls run at once near it", async () => {
    const { address, subscription } = await subscriber(UNIT);
    const before = await world.contracts.balanceOf(address);
    const request = () =>
      fetch(`${world.provider.url}/complete`, {
        method: "POST",
        headers: { "content-type": "application/json", [HEADER.subscription]: subscription.id },
        body: JSON.stringify({ words: 1_000 }),
      });
    const answers = await Promise.all(Array.from({ length: 10 }, request));
    expect(answers.map(({ status }) => status).sort()).to.deep.equal([200, 200, ...Array<number>(8).fill(402)]);
    await until("the debit", async () => (await spentOf(world, subscription.idHash)) === UNIT);
    expect(before - (await world.contracts.balanceOf(address))).to.equal(UNIT);
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
    expect((await call()).status).to.equal(200);
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
