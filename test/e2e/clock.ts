import { expect } from "chai";
import { advance } from "../../scripts/sandbox/clock";
import type { Delivered } from "../../scripts/sandbox/inbox";
import { DAY_SEC, INTERVAL_SEC, recordOf, startSandbox, until, type World } from "../support/sandbox";

describe("sandbox clock", function () {
  this.timeout(120_000);
  let world: World;

  before(async () => {
    world = await startSandbox({ withInbox: true });
  });
  after(() => world.stop());

  it("collects every period on the way and leaves each in the inbox, signed", async () => {
    const { agent } = await world.agent("a reader for months");
    const { idHash, paidThroughSec } = await agent.subscribe({ planId: world.plans.reader });
    const steps: number[] = [];
    await advance(
      {
        rpcUrl: world.chain.rpcUrl,
        facilitatorUrl: world.facilitator.url,
        apiKey: world.providerKey ?? "",
      },
      2 * INTERVAL_SEC + DAY_SEC,
      ({ nowSec }) => steps.push(nowSec),
    );
    expect((await recordOf(world, idHash)).paidThroughSec).to.equal(paidThroughSec + 2 * INTERVAL_SEC);
    expect((steps.at(-1) ?? 0) - (steps[0] ?? 0)).to.be.at.least(2 * INTERVAL_SEC + DAY_SEC);
    let renewals: Delivered[] = [];
    await until("both renewals in the inbox", async () => {
      const inbox = (await (await fetch(`${world.inbox?.url}/`)).json()) as Delivered[];
      renewals = inbox.filter(({ type }) => type === "subscription.renewed");
      return renewals.length >= 2;
    });
    expect(renewals).to.have.length(2);
    expect(renewals.every(({ isVerified }) => isVerified)).to.equal(true);
    // A day and more apart from the moment they were due would be a clock that ran past them.
    for (const [index, { occurredAt }] of [...renewals].reverse().entries())
      expect(occurredAt - (paidThroughSec + index * INTERVAL_SEC)).to.be.within(0, 3_600);
  });
});
