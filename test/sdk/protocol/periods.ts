import { expect } from "chai";
import { isCollectable, nextPeriodStart, quoteChange, type SubscriptionRecord, statusAt } from "turnpike/protocol";

const paidThroughSec = 1_000_000;
const record: SubscriptionRecord = {
  known: true,
  cancelled: false,
  ending: false,
  paused: false,
  paidThroughSec,
  intervalSec: 1_000,
  graceSec: 100,
};

describe("protocol > periods", () => {
  it("L19 A16 returns the status at each boundary", () => {
    const table: [number, string, boolean][] = [
      [-1, "ACTIVE", false],
      [0, "ACTIVE", true],
      [1, "ACTIVE", true],
      [99, "ACTIVE", true],
      [100, "PAST_DUE", true],
      [999, "PAST_DUE", true],
      [1_000, "EXPIRED", false],
    ];
    for (const [offset, status, collectable] of table) {
      expect(statusAt(record, paidThroughSec + offset), `t = p + ${offset}`).to.equal(status);
      expect(isCollectable(record, paidThroughSec + offset), `t = p + ${offset}`).to.equal(collectable);
    }
  });

  it("uses the first match of unknown, cancelled, ending, paused", () => {
    expect(statusAt({ ...record, known: false }, 0)).to.equal("NONE");
    expect(statusAt({ ...record, cancelled: true, paused: true }, 0)).to.equal("CANCELLED");
    expect(statusAt({ ...record, ending: true }, paidThroughSec - 1)).to.equal("ACTIVE");
    expect(statusAt({ ...record, ending: true }, paidThroughSec)).to.equal("CANCELLED");
    expect(statusAt({ ...record, paused: true }, paidThroughSec + 5_000)).to.equal("PAUSED");
    expect(isCollectable({ ...record, paused: true }, paidThroughSec)).to.equal(false);
  });

  it("bills only the grace that was served", () => {
    expect(nextPeriodStart(record, paidThroughSec)).to.equal(paidThroughSec);
    expect(nextPeriodStart(record, paidThroughSec + 99)).to.equal(paidThroughSec);
    expect(nextPeriodStart(record, paidThroughSec + 100)).to.equal(paidThroughSec);
    expect(nextPeriodStart(record, paidThroughSec + 600)).to.equal(paidThroughSec + 500);
  });

  it("credits unused time rounded down, and reports when it is worth more than the new plan", () => {
    expect(quoteChange(record, 10n, 30n, paidThroughSec - 333)).to.deep.equal({ credit: 3n, charge: 27n });
    expect(quoteChange(record, 100n, 10n, paidThroughSec - 1_000)).to.deep.equal({ credit: 100n, charge: undefined });
  });
});
