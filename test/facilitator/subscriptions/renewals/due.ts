import { expect } from "chai";
import { nextLookSec, stageAt } from "../../../../facilitator/src/subscriptions/renewals/due";

const HOUR = 3_600;
const DAY = 24 * HOUR;
const P = 1_800_000_000;
const inSeconds = { months: 0, anchorDay: 0, untilSec: 0 };
const monthly = { ...inSeconds, paidThroughSec: P, intervalSec: 30 * DAY, graceSec: 3 * DAY };

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

  it("A16 lapses at the next month's boundary when periods are months", () => {
    const endOfJanuary = Date.UTC(2027, 0, 31, 12) / 1_000;
    const terms = { ...monthly, paidThroughSec: endOfJanuary, months: 1, anchorDay: 31 };
    const boundary = Date.UTC(2027, 1, 28, 12) / 1_000;
    expect([stageAt(terms, boundary - 1), stageAt(terms, boundary)]).to.deep.equal(["past_due", "lapsed"]);
    expect(nextLookSec(terms, 9, boundary - 100)).to.equal(boundary - 60);
  });

  it("L27 has ended from the later of p and its end on, whatever else would be due", () => {
    const at = (untilSec: number, nowSec: number) => stageAt({ ...monthly, untilSec }, nowSec);
    expect([at(P - DAY, P - 1), at(P - DAY, P)]).to.deep.equal(["early", "ended"]);
    expect([at(P + DAY, P + DAY - 1), at(P + DAY, P + DAY)]).to.deep.equal(["in_grace", "ended"]);
    expect(at(P + 5 * DAY, P + 40 * DAY)).to.equal("ended");
    expect(nextLookSec({ ...monthly, untilSec: P + 100 }, 1, P)).to.equal(P + 40);
    expect(nextLookSec({ ...monthly, untilSec: P + 100 }, 1, P + 40)).to.equal(P + 100);
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
      const times = looks({ ...inSeconds, paidThroughSec: P, intervalSec, graceSec });
      for (const [index, time] of times.slice(1).entries()) expect(time).to.be.greaterThan(times[index] ?? 0);
      expect(times.at(-1)).to.equal(P + intervalSec);
      expect(times.length).to.be.at.most(400);
    });
  }
});
