import { expect } from "chai";
import fc from "fast-check";
import {
  type Begun,
  type Outcome,
  outcomesOf,
  type Reported,
  together,
} from "../../../facilitator/src/analytics/funnel";
import { recurringOn } from "../../../facilitator/src/analytics/recurring";

const DAY_SEC = 86_400;
/** midnight UTC */
const TODAY_SEC = 20_833 * DAY_SEC;

describe("rules of figures", () => {
  describe("what was lost", () => {
    const row = (cause: string, amount: bigint, more: Partial<Reported> = {}): Reported => ({
      resource: "/a",
      step: cause === "PaymentRequired" ? "asked" : "refused",
      cause,
      offer: "one-time",
      count: 1,
      amount,
      ...more,
    });
    const paid = (amount: bigint, more: Partial<Reported> = {}) => row("", amount, { step: "paid", ...more });
    const begun = (more: Partial<Begun> = {}): Begun => ({ signups: [], resumed: 0, prices: new Set(), ...more });
    const signups = (price: bigint, count: number) => begun({ signups: [{ price, count }], prices: new Set([price]) });
    const subscribed = (resource: string, count: number) =>
      row("", 0n, { step: "subscribed", offer: "subscription", resource, count });
    const lostIn = (rows: Reported[]) =>
      together(outcomesOf(rows, begun()), ({ cause, offer, resource }) => `${cause} ${offer} ${resource}`).map(
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
      const rows = [plans, other, subscribed("/plan", 2), subscribed("/either", 9)];
      const lost = (count: number) => outcomesOf(rows, signups(10n, count)).map((one) => one.asked - one.answered);
      expect(lost(0)).to.deep.equal([20n, 6n]);
      expect(lost(1)).to.deep.equal([10n, 6n]);
      expect(lost(2)).to.deep.equal([0n, 6n]);
      expect(lost(4)).to.deep.equal([0n, 2n]);
      expect(lost(99)).to.deep.equal([0n, 0n]);
    });

    it("HF1 is not answered by a signup of another price, nor where no subscriber was served", () => {
      const asked = row("PaymentRequired", 30n, { offer: "subscription", count: 3 });
      const lost = (rows: Reported[], how: Begun) =>
        outcomesOf(rows, how).reduce((sum, one) => sum + one.asked - one.answered, 0n);
      const prices = new Set([5n, 10n]);
      const five = begun({ signups: [{ price: 5n, count: 1 }], prices });
      const ten = begun({ signups: [{ price: 10n, count: 1 }], prices });
      expect(lost([asked, subscribed("/a", 9)], five)).to.equal(30n);
      expect(lost([asked], ten)).to.equal(30n);
      expect(lost([asked, subscribed("/a", 9)], ten)).to.equal(20n);
      // A sum that is no plan's price holds several: either price may be in it.
      const mixed = row("PaymentRequired", 15n, { offer: "subscription", count: 2 });
      expect(lost([mixed, subscribed("/a", 9)], five)).to.equal(8n);
    });

    it("HF2 is answered by a resumption, charged or not, where the subscription was paused", () => {
      const paused = row("SubscriptionNotActive/paused", 30n, { offer: "subscription", count: 3 });
      const left = row("PaymentRequired", 10n, { offer: "subscription" });
      const lost = (resumed: number, served: number) =>
        outcomesOf([paused, left, subscribed("/a", served)], begun({ resumed })).map(({ cause, asked, answered }) => [
          cause,
          asked - answered,
        ]);
      const first = ["PaymentRequired", 10n];
      expect(lost(3, 9)).to.deep.equal([first, ["SubscriptionNotActive/paused", 0n]]);
      expect(lost(9, 9)).to.deep.equal([first, ["SubscriptionNotActive/paused", 0n]]);
      expect(lost(9, 1)).to.deep.equal([first, ["SubscriptionNotActive/paused", 20n]]);
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

    it("HC18 adds up in every row, whatever was reported", () => {
      const any = fc.record({
        resource: fc.constantFrom("/a", "/b", "*"),
        step: fc.constantFrom("asked", "refused", "paid", "subscribed", "served"),
        cause: fc.constantFrom("PaymentRequired", "InvalidPaymentProof/already_used", "AllowanceExhausted"),
        offer: fc.constantFrom("one-time", "subscription", ""),
        count: fc.integer({ min: 1, max: 1_000 }),
        amount: fc.bigInt({ min: 0n, max: 10n ** 30n }),
      });
      fc.assert(
        fc.property(fc.array(any, { maxLength: 12 }), fc.nat(2_000), fc.bigInt(0n, 20n), (rows, count, price) => {
          const prices = new Set([price]);
          const outcomes = outcomesOf(rows, { signups: [{ price, count }], resumed: count, prices });
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
      intervalSec: intervalDays * DAY_SEC,
      atSec: TODAY_SEC + day * DAY_SEC,
      count,
      amount,
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

    it("HF3 ends a period where its plan was changed, and counts the new one at its price", () => {
      const changed = (day: number, charged: bigint, before: { day: number; amount: bigint; days?: number }) => ({
        atSec: TODAY_SEC + day * DAY_SEC,
        charged,
        price: 1_000n,
        intervalSec: 30 * DAY_SEC,
        before: {
          atSec: TODAY_SEC + before.day * DAY_SEC,
          amount: before.amount,
          intervalSec: (before.days ?? 30) * DAY_SEC,
        },
      });
      const from = (
        rows: ReturnType<typeof charged>[],
        change: ReturnType<typeof changed>,
        first: number,
        end: number,
      ) =>
        recurringOn(rows, TODAY_SEC + first * DAY_SEC, TODAY_SEC + end * DAY_SEC, [change]).map(({ amount, count }) => [
          Number(amount),
          count,
        ]);
      // 900 from day 0, then 1,000 from day 10, of which 400 were charged.
      const rows = [charged(30, 0, 900n), charged(30, 10, 400n)];
      const change = changed(10, 400n, { day: 0, amount: 900n });
      const days = from(rows, change, -1, 42);
      expect(days.slice(1, 11)).to.deep.equal(Array.from({ length: 10 }, () => [900, 1]));
      expect(days.slice(11, 41)).to.deep.equal(Array.from({ length: 30 }, () => [1_000, 1]));
      expect([days[0], days[41], days[42]]).to.deep.equal([
        [0, 0],
        [0, 0],
        [0, 0],
      ]);
      // A later range says the same, and so does one that begins after both.
      expect(from(rows, change, 25, 41)).to.deep.equal(days.slice(26, 42));
      expect(from(rows, change, 41, 43)).to.deep.equal([
        [0, 0],
        [0, 0],
      ]);
      // Nothing was charged, the intervals differ, and it is the day of the signup.
      expect(from([charged(7, 0, 70n)], changed(3, 0n, { day: 0, amount: 70n, days: 7 }), 0, 9)).to.deep.equal([
        ...Array.from({ length: 3 }, () => [300, 1]),
        ...Array.from({ length: 6 }, () => [1_000, 1]),
      ]);
      expect(from(rows.slice(0, 1), changed(0, 0n, { day: 0, amount: 900n }), 0, 1)).to.deep.equal([[1_000, 1]]);
    });

    it("does not dip where a renewal follows on time", () => {
      const rows = [charged(30, 0, 900n), charged(30, 30, 900n), charged(30, 60, 900n)];
      expect(new Set(on(rows, 0, 90).map(([amount]) => amount))).to.deep.equal(new Set([900n]));
    });
  });
});
