import { expect } from "chai";
import { lossesOf, type Reported } from "../../facilitator/src/analytics/funnel";
import { recurringOn } from "../../facilitator/src/analytics/recurring";

const DAY_SEC = 86_400;
/** midnight UTC */
const TODAY_SEC = 20_833 * DAY_SEC;

describe("rules of figures", () => {
  describe("what was lost", () => {
    const row = (cause: string, amount: bigint, more: Partial<Reported> = {}): Reported => ({
      ...{
        step: cause === "PaymentRequired" ? "asked" : "refused",
        cause,
        offer: "one-time",
        count: 1,
        amount,
        ...more,
      },
    });
    const lost = (paid: bigint, ...rows: Reported[]) =>
      lossesOf(rows, { "one-time": paid, subscription: 0n }).map(({ cause, lost: amount }) => [cause, amount]);

    it("is what was asked for and not paid: payments answer first requests, then the largest refusals", () => {
      const rows = [row("PaymentRequired", 10n), row("Expired", 4n), row("Memo", 6n)];
      expect(lost(3n, ...rows)).to.deep.equal([
        ["PaymentRequired", 7n],
        ["Memo", 6n],
        ["Expired", 4n],
      ]);
      expect(lost(12n, ...rows)).to.deep.equal([
        ["Expired", 4n],
        ["Memo", 4n],
        ["PaymentRequired", 0n],
      ]);
      expect(lost(99n, ...rows).every(([, amount]) => amount === 0n)).to.equal(true);
    });

    it("sets what signups brought against offers of plans alone", () => {
      const rows = [row("PaymentRequired", 5n), row("PaymentRequired", 20n, { offer: "subscription" })];
      const losses = lossesOf(rows, { "one-time": 0n, subscription: 15n });
      expect(losses.map(({ offer, lost: amount }) => [offer, amount])).to.deep.equal([
        ["one-time", 5n],
        ["subscription", 5n],
      ]);
    });
  });

  describe("what recurs", () => {
    const charged = (intervalDays: number, day: number, amount: bigint, count = 1) => ({
      ...{ intervalSec: intervalDays * DAY_SEC, atSec: TODAY_SEC + day * DAY_SEC, count, amount },
    });
    const on = (rows: ReturnType<typeof charged>[], from: number, to: number) =>
      recurringOn(rows, TODAY_SEC + from * DAY_SEC, TODAY_SEC + to * DAY_SEC).map(({ amount, count }) => [
        amount,
        count,
      ]);

    it("is a period's price from the day it is charged until the day before the next is due", () => {
      const rows = [charged(30, 0, 900n)];
      expect(on(rows, -1, 2)).to.deep.equal([
        [0n, 0],
        [900n, 1],
        [900n, 1],
      ]);
      expect(on(rows, 28, 32)).to.deep.equal([
        [900n, 1],
        [900n, 1],
        [0n, 0],
        [0n, 0],
      ]);
    });

    it("brings weeks, years and hours to 30 days", () => {
      expect(on([charged(7, 0, 70n)], 0, 1)).to.deep.equal([[300n, 1]]);
      expect(on([charged(365, -300, 3_650n)], 0, 1)).to.deep.equal([[300n, 1]]);
      expect(on([charged(1 / 24, 0, 24n, 24)], 0, 1)).to.deep.equal([[720n, 1]]);
    });

    it("does not dip where a renewal follows on time", () => {
      const rows = [charged(30, 0, 900n), charged(30, 30, 900n), charged(30, 60, 900n)];
      expect(new Set(on(rows, 0, 90).map(([amount]) => amount))).to.deep.equal(new Set([900n]));
    });
  });
});
