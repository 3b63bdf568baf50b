import { readFileSync } from "node:fs";
import { expect } from "chai";
import { lengthOf, nextBoundarySec, periodFrom, periodLengthSec, periodOf, periodText } from "turnpike/protocol";

const { rows, chains } = JSON.parse(readFileSync("docs/reference/vectors/periods.json", "utf8")) as {
  readonly rows: readonly [start: number, months: number, anchor: number, end: number, anchorAfter: number][];
  readonly chains: readonly { readonly start: number; readonly months: number; readonly ends: readonly number[] }[];
};

const monthly = (count: number) => lengthOf({ unit: "month", count });

describe("protocol > calendar", () => {
  it("L25 ends each period of the vector table where the contract does", () => {
    const wrong = rows.filter(([start, months, anchor, end, anchorAfter]) => {
      const { endSec, anchorDay } = periodFrom(start, monthly(months), anchor);
      return endSec !== end || anchorDay !== anchorAfter;
    });
    expect(rows).to.have.length.greaterThan(1_000);
    expect(wrong).to.deep.equal([]);
  });

  it("L25 follows each chain, finds the next boundary, and knows the length of the paid period", () => {
    const wrong = chains.filter(({ start, months, ends }) => {
      const length = monthly(months);
      let period = { endSec: start, anchorDay: 0 };
      return !ends.every((end) => {
        const before = period;
        period = periodFrom(before.endSec, length, before.anchorDay);
        const paid = { ...length, paidThroughSec: period.endSec, anchorDay: period.anchorDay };
        const isLong = periodLengthSec(paid) === end - before.endSec;
        const known = { ...length, paidThroughSec: before.endSec, anchorDay: before.anchorDay };
        const isNext = before.anchorDay === 0 || nextBoundarySec(known) === end;
        return period.endSec === end && isLong && isNext;
      });
    });
    expect(chains).to.have.length.greaterThan(5);
    expect(wrong).to.deep.equal([]);
  });

  it("counts periods in seconds without a calendar", () => {
    const hourly = lengthOf({ unit: "second", count: 3_600 });
    expect(periodFrom(100, hourly, 31)).to.deep.equal({ endSec: 3_700, anchorDay: 0 });
    const paid = { ...hourly, paidThroughSec: 3_700, anchorDay: 0 };
    expect([nextBoundarySec(paid), periodLengthSec(paid)]).to.deep.equal([7_300, 3_600]);
  });

  it("writes a period as the wire and a sentence have it", () => {
    for (const period of [
      { unit: "month", count: 3 },
      { unit: "second", count: 86_400 },
    ] as const) {
      expect(periodOf(lengthOf(period))).to.deep.equal(period);
    }
    const texts = [monthly(1), monthly(3), lengthOf({ unit: "second", count: 86_400 })].map(periodText);
    expect(texts).to.deep.equal(["month", "3 months", "86400 s"]);
  });
});
