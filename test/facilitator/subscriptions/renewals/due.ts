import { expect } from "chai";
import { nextLookSec, stageAt } from "../../../../facilitator/src/subscriptions/renewals/due";

const HOUR = 3_600;
const DAY = 24 * HOUR;
const P = 1_800_000_000;
const monthly = { paidThroughSec: P, intervalSec: 30 * DAY, graceSec: 3 * DAY };

/** When every attempt fails: the times of all looks from the first at `p` until nothing can be collected any more. */
function looks(terms: typeof monthly): number[] {
  const times = [terms.paidThroughSec];
  for (let attempts = 1; (times.at(-1) ?? 0) < terms.paidThroughSec + terms.intervalSec; attempts++) {
    if (attempts > 10_000) throw new Error("the schedule does not end");
    times.push(nextLookSec(terms, attempts, times.at(-1) ?? 0));
  }
  return times;
}

describe("Facilitator: when renewals are due", () => {
  it("A16 is not due before p, is due from p, past due from p + g, lapsed from p + i", () => {
    const at = (nowSec: number) => stageAt(monthly, nowSec);
    expect([at(P - 1), at(P)]).to.deep.equal(["early", "in_grace"]);
    expect([at(P + 3 * DAY - 1), at(P + 3 * DAY)]).to.deep.equal(["in_grace", "past_due"]);
    expect([at(P + 30 * DAY - 1), at(P + 30 * DAY)]).to.deep.equal(["past_due", "lapsed"]);
  });

  it("tries again after 1 h, 6 h, 24 h, then daily", () => {
    const steps = looks(monthly)
      .slice(0, 4)
      .map((time) => time - P);
    expect(steps).to.deep.equal([0, HOUR, 7 * HOUR, 31 * HOUR]);
  });

  it("tries once more just before grace ends and just before p + i, and looks at both boundaries", () => {
    const times = looks(monthly);
    expect(times).to.include.members([P + 3 * DAY - 60, P + 3 * DAY, P + 30 * DAY - 60]);
    expect(times.at(-1)).to.equal(P + 30 * DAY);
  });

  for (const [intervalSec, graceSec] of [
    [1, 0],
    [2, 1],
    [60, 20],
    [HOUR, 0],
    [DAY, HOUR],
    [365 * DAY, 7 * DAY],
  ] as const) {
    it(`strictly advances and ends for an interval of ${intervalSec} s with ${graceSec} s of grace`, () => {
      const times = looks({ paidThroughSec: P, intervalSec, graceSec });
      for (const [index, time] of times.slice(1).entries()) expect(time).to.be.greaterThan(times[index] ?? 0);
      expect(times.at(-1)).to.equal(P + intervalSec);
      expect(times.length).to.be.at.most(400);
    });
  }
});
