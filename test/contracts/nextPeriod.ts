// The period that a scheduled change begins.

import { expect } from "chai";
import { ZeroHash } from "ethers";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

const GRACE = 20 * c.DAY;
const WEEK = 7 * c.DAY;

/** On a plan of 30 days with 20 of grace; the next period is a week, with a day of grace. */
async function shortening() {
  const w = await c.world();
  const planId = await c.createPlan(w, { grace: GRACE });
  const weekly = await c.createPlan(w, { interval: WEEK, grace: c.DAY });
  const s = await c.subscribe(w, { planId });
  await w.turnpike.connect(w.subscriber).setNext(s.idHash, 0, weekly, await c.shownOf(w, weekly), c.NO_AUTH);
  return { w, s };
}

describe("Scheduled change to a period shorter than the grace", () => {
  it("L6 L28 starts where the old period ended while the new one is not over", async () => {
    const { w, s } = await loadFixture(shortening);
    await c.at(s.paidThrough + WEEK - 1, () => w.turnpike.connect(w.stranger).renew(s.idHash));
    expect(await c.paidThroughOf(w, s.idHash)).to.equal(s.paidThrough + WEEK);
  });

  it("L6 L28 charges no period that is over, in grace", async () => {
    const { w, s } = await loadFixture(shortening);
    const nowSec = s.paidThrough + WEEK;
    await c.at(nowSec, () => w.turnpike.connect(w.stranger).renew(s.idHash));
    expect(await c.paidThroughOf(w, s.idHash)).to.equal(nowSec - c.DAY + WEEK);
    expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.ACTIVE);
  });

  it("L6 L28 charges no period that is over, by a resumption after expiry", async () => {
    const { w, s } = await loadFixture(shortening);
    const nowSec = s.paidThrough + c.INTERVAL + c.DAY;
    await c.at(nowSec, () => w.turnpike.connect(w.subscriber).resume(s.idHash, c.FOREVER, c.NO_AUTH));
    expect(await c.paidThroughOf(w, s.idHash)).to.equal(nowSec - c.DAY + WEEK);
    expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.ACTIVE);
    expect((await w.lens.getSubscription(s.idHash)).nextPlanId).to.equal(ZeroHash);
  });
});
