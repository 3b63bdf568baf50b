import { expect } from "chai";
import { HEADER } from "turnpike/protocol";
import { INTERVAL_SEC, recordOf, spentBy, startSandbox, UNIT, until, type World } from "../support/sandbox";

describe("end to end > renewals", function () {
  this.timeout(240_000);
  let world: World;

  beforeEach(async () => {
    world = await startSandbox();
  });
  afterEach(() => world.stop());

  const report = (id: string) => fetch(`${world.provider.url}/report`, { headers: { [HEADER.subscription]: id } });

  it("collects every period when it is due, without the client, once, and without drift", async () => {
    const { agent, address } = await world.agent("reader");
    const { id, idHash, paidThroughSec } = await agent.subscribe({ planId: world.plans.reader });
    await agent.close();
    for (const period of [1, 2]) {
      const spent = await spentBy(world, address, async () => {
        await world.chain.advance(INTERVAL_SEC);
        const end = paidThroughSec + period * INTERVAL_SEC;
        await until(`renewal ${period}`, async () => (await recordOf(world, idHash)).paidThroughSec === end);
      });
      expect(spent).to.equal(10n * UNIT);
    }
    await until("the service", async () => (await report(id)).status === 200);
  });

  it("A35 stops serving a wallet that cannot pay, and starts again when it is filled within the period", async () => {
    const { agent, address } = await world.agent("short of money", { tokens: 10n * UNIT });
    const { id, idHash } = await agent.subscribe({ planId: world.plans.reader });
    expect((await report(id)).status).to.equal(200);
    await world.chain.advance(INTERVAL_SEC + INTERVAL_SEC / 10);
    expect((await recordOf(world, idHash)).status).to.equal("PAST_DUE");
    await until("the refusal", async () => (await report(id)).status === 402);
    await world.contracts.mint(address, 10n * UNIT);
    await world.chain.advance(2 * 86_400);
    await until("the renewal", async () => (await recordOf(world, idHash)).status === "ACTIVE");
    await until("the service", async () => (await report(id)).status === 200);
    expect(await world.contracts.balanceOf(address)).to.equal(0n);
  });

  it("S5 collects a period once when it fell due while the Facilitator was down", async () => {
    const { agent, address } = await world.agent("reader");
    const { idHash, paidThroughSec } = await agent.subscribe({ planId: world.plans.reader });
    await world.facilitator.stop();
    const spent = await spentBy(world, address, async () => {
      await world.chain.advance(INTERVAL_SEC + 60);
      await world.facilitator.start();
      await until("the renewal", async () => (await recordOf(world, idHash)).paidThroughSec > paidThroughSec);
    });
    expect(spent).to.equal(10n * UNIT);
    expect((await recordOf(world, idHash)).paidThroughSec).to.equal(paidThroughSec + INTERVAL_SEC);
  });
});
