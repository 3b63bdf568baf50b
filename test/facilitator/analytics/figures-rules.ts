import { expect } from "chai";
import fc from "fast-check";
import { type Outcome, outcomesOf, type Reported, together } from "../../../facilitator/src/analytics/funnel";
import { recurringOn } from "../../../facilitator/src/analytics/recurring";

const DAY_SEC = 86_400;
/** midnight UTC */
const TODAY_SEC = 20_833 * DAY_SEC;

describe("rules of figures", () => {
  describe("what was lost", () => {
    const row = (cause: string, amount: bigint, more: Partial<Reported> = {}): Reported => ({
      ...{
        resource: "/a",
        step: cause === "PaymentRequired" ? "asked" : "refused",
        cause,
        offer: "one-time",
        count: 1,
        amount,
        ...more,
      },
    });
    const paid = (amount: bigint, more: Partial<Reported> = {}) => row("", amount, { step: "paid", ...more });
    const lostIn = (rows: Reported[], begun = 0) =>
      together(outcomesOf(rows, begun), ({ cause, offer, resource }) => `${cause} ${offer} ${resource}`).map(
        ({ cause, lost }) => [cause, lost],
      );

    it("is what was asked for and not paid: payments answer first requests, then the largest refusals", () => {
      const rows = [row("PaymentRequired", 10n), row("Expired", 4n), row("Memo", 6n)];
      expect(lostIn([...rows, paid(3n)])).to.deep.equal([
        ["PaymentRequired", 7n],
        ["Memo", 6n],
        ["Expired", 4n],
      ]);
      expect(lostIn([...rows, paid(12n)])).to.deep.equal([
        ["Memo", 4n],
        ["Expired", 4n],
        ["PaymentRequired", 0n],
      ]);
      expect(lostIn([...rows, paid(99n)]).every(([, amount]) => amount === 0n)).to.equal(true);
    });

    it("HC14 is answered at its own resource: what is paid elsewhere answers nothing", () => {
      const rows = [row("PaymentRequired", 10n), row("PaymentRequired", 5n, { resource: "/b" })];
      expect(lostIn([...rows, paid(99n, { resource: "/b" })])).to.deep.equal([
        ["PaymentRequired", 10n],
        ["PaymentRequired", 0n],
      ]);
    });

    it("HC15 is answered by what begins a subscription: an offer of plans first, else one where subscribers are served", () => {
      const plans = row("PaymentRequired", 20n, { offer: "subscription", count: 2, resource: "/plan" });
      const other = row("PaymentRequired", 6n, { count: 3, resource: "/either" });
      const served = row("", 0n, { step: "subscribed", offer: "subscription", resource: "/either" });
      const lost = (begun: number) => outcomesOf([plans, other, served], begun).map((one) => one.asked - one.answered);
      expect(lost(0)).to.deep.equal([20n, 6n]);
      expect(lost(1)).to.deep.equal([10n, 6n]);
      expect(lost(2)).to.deep.equal([0n, 6n]);
      expect(lost(4)).to.deep.equal([0n, 2n]);
      expect(lost(99)).to.deep.equal([0n, 0n]);
    });

    it("HC16 is answered by a single payment too where plans were offered first", () => {
      const plans = row("PaymentRequired", 20n, { offer: "subscription", count: 2 });
      expect(lostIn([plans, paid(1n)])).to.deep.equal([["PaymentRequired", 10n]]);
    });

    it("HC17 is not what was paid before: a payment that is presented again", () => {
      const again = ["already_used", "expired", "resource"].map((reason) => row(`InvalidPaymentProof/${reason}`, 5n));
      const forged = row("InvalidPaymentProof/signature", 7n);
      expect(lostIn([...again, forged])).to.deep.equal([[forged.cause, 7n]]);
    });

    it("HC18 adds up in every row, whatever was told", () => {
      const any = fc.record({
        resource: fc.constantFrom("/a", "/b", "*"),
        step: fc.constantFrom("asked", "refused", "paid", "subscribed", "served"),
        cause: fc.constantFrom("PaymentRequired", "InvalidPaymentProof/already_used", "AllowanceExhausted"),
        offer: fc.constantFrom("one-time", "subscription", ""),
        count: fc.integer({ min: 1, max: 1_000 }),
        amount: fc.bigInt({ min: 0n, max: 10n ** 30n }),
      });
      fc.assert(
        fc.property(fc.array(any, { maxLength: 12 }), fc.nat(2_000), (rows, begun) => {
          const outcomes = outcomesOf(rows, begun);
          for (const { asked, answered } of outcomes) expect(answered >= 0n && answered <= asked).to.equal(true);
          const sum = (field: "asked" | "answered" | "lost", nameOf: (one: Outcome) => string) =>
            together(outcomes, nameOf).reduce((total, one) => total + one[field], 0n);
          for (const field of ["asked", "answered", "lost"] as const)
            expect(sum(field, ({ cause }) => cause)).to.equal(sum(field, ({ resource }) => resource));
        }),
      );
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
