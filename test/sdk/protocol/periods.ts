import { expect } from "chai";
import { isCollectable, nextPeriodStart, quoteChange, type SubscriptionRecord, statusAt } from "turnpike/protocol";

const paidThroughSec = 1_000_000;
const record: SubscriptionRecord & { readonly intro: boolean } = {
  known: true,
  cancelled: false,
  ending: false,
  paused: false,
  paidThroughSec,
  intervalSec: 1_000,
  months: 0,
  graceSec: 100,
  anchorDay: 0,
  untilSec: 0,
  intro: false,
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

  it("L27 ends at the later of the paid period's end and the subscriber's own end", () => {
    for (const untilSec of [paidThroughSec - 500, paidThroughSec + 50, paidThroughSec + 500]) {
      const limited = { ...record, untilSec };
      const endSec = Math.max(paidThroughSec, untilSec);
      expect(statusAt(limited, endSec - 1), `one second before ${untilSec}`).to.not.equal("CANCELLED");
      expect(statusAt(limited, endSec), `until ${untilSec}`).to.equal("CANCELLED");
      expect(isCollectable(limited, endSec)).to.equal(false);
    }
    expect(isCollectable({ ...record, untilSec: paidThroughSec + 50 }, paidThroughSec + 49)).to.equal(true);
  });

  it("L30 gives no credit for a first period by voucher", () => {
    expect(quoteChange({ ...record, intro: true }, 100n, 10n, paidThroughSec - 1_000)).to.deep.equal({
      credit: 0n,
      charge: 10n,
    });
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
