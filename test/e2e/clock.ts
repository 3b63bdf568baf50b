import { expect } from "chai";
import type { FunnelWire } from "turnpike/facilitator";
import type { Delivered } from "../../scripts/sandbox/inbox-page";
import { moveClock } from "../../scripts/sandbox/move-clock";
import { DAY_SEC, INTERVAL_SEC, recordOf, startSandbox, until, type World } from "../support/sandbox";

describe("sandbox clock", function () {
  this.timeout(120_000);
  let world: World;
  const running = () => ({ facilitatorUrl: world.facilitator.url, apiKey: world.providerKey ?? "" });

  before(async () => {
    world = await startSandbox({ withInbox: true });
  });
  after(() => world.stop());

  it("has the gates report what they counted before it moves: nothing grows too old to be reported", async () => {
    const ask = async () => expect((await fetch(`${world.provider.url}/quote`)).status).to.equal(402);
    for (let asked = 0; asked < 3; asked++) await ask();
    await moveClock(running(), 2 * DAY_SEC);
    await ask();
    await moveClock(running(), 2 * DAY_SEC);
    const headers = { authorization: `Bearer ${world.providerKey}` };
    let lostReports: number | undefined;
    // A report that the gate has sent is in the figures once the service has stored it.
    await until("all four in the funnel", async () => {
      const answer = await fetch(`${world.facilitator.url}/analytics/funnel?days=7`, { headers });
      const funnel = (await answer.json()) as FunnelWire;
      lostReports = funnel.lostReports;
      return funnel.steps.find(({ step }) => step === "asked")?.count === 4;
    });
    expect(lostReports).to.equal(0);
  });

  it("collects every period on the way and leaves each in the inbox, signed", async () => {
    const { agent } = await world.agent("a reader for months");
    const { idHash, paidThroughSec } = await agent.subscribe({ planId: world.plans.reader });
    const steps: number[] = [];
    await moveClock(running(), 2 * INTERVAL_SEC + DAY_SEC, ({ nowSec }) => steps.push(nowSec));
    expect((await recordOf(world, idHash)).paidThroughSec).to.equal(paidThroughSec + 2 * INTERVAL_SEC);
    expect((steps.at(-1) ?? 0) - (steps[0] ?? 0)).to.be.at.least(2 * INTERVAL_SEC + DAY_SEC);
    expect(steps, "a step is reported twice").to.have.length(new Set(steps).size);
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

  it("is moved by one request at a time: the second waits for the first", async () => {
    const before = await chainNow();
    await Promise.all([moveClock(running(), DAY_SEC), moveClock(running(), DAY_SEC)]);
    expect((await chainNow()) - before).to.be.within(2 * DAY_SEC, 2 * DAY_SEC + 3_600);
  });

  it("says why it does not move", async () => {
    const refused = await moveClock(running(), 4_000 * DAY_SEC).catch((error: Error) => error.message);
    expect(refused).to.match(/seconds/);
  });

  async function chainNow(): Promise<number> {
    return (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
  }
});
