// Plans in calendar months, over the whole life of a subscription.

import { reset } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import type { ContractTransactionResponse } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { utc as date, LAST, signup } from "./support/signups";

const MONTH_DAYS = 28;

/** Unix seconds of a date 400 years later: the calendar repeats then, and the chain's clock is not there yet. */
const utc = (year: number, ...rest: [month: number, day: number, ...time: number[]]) => date(year + 400, ...rest);

/** One month, with GRACE, from noon of 31 January 2027: paid through noon of 28 February. */
async function monthly() {
  const w = await c.world();
  const planId = await c.createPlan(w, { interval: 1n, months: true });
  const me = w.turnpike.connect(w.subscriber);
  const s = await begin(w, planId, utc(2027, 1, 31, 12));
  return { w, planId, me, s, due: utc(2027, 2, 28, 12) };
}

async function begin(w: c.World, planId: string, startSec: number, maxOverage = 0n) {
  const secretHash = c.freshSecretHash();
  await c.at(startSec, () =>
    w.turnpike.connect(w.subscriber).subscribe(...c.signupArgs(w.subscriber, { planId, secretHash, maxOverage })),
  );
  const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
  return { idHash, secretHash };
}

/** The names and arguments of Turnpike's events, in their order. */
async function eventsOf(w: c.World, sent: ContractTransactionResponse) {
  const receipt = c.present(await sent.wait());
  const own = receipt.logs.map((log) => w.turnpike.interface.parseLog(log)).filter((log) => log !== null);
  return own.map((log) => [log.name, ...log.args.toArray()]);
}

async function renewAt(w: c.World, idHash: string, timeSec: number) {
  return eventsOf(w, await c.at(timeSec, () => w.turnpike.renew(idHash)));
}

describe("Plans in months", () => {
  // The dates are fixed: another file may have moved the clock past them, and must not inherit the last ones.
  before(() => reset());
  after(() => reset());

  describe("createPlan", () => {
    it("accepts 1 to 1,200 months, and a grace below 28 days for each", async () => {
      const w = await loadFixture(c.world);
      const attempt = async (interval: bigint, grace: number) =>
        w.turnpike.createPlan(await c.termsOf(w, { interval, grace, months: true }), c.freshSalt(), "");
      const refusal = async (interval: bigint, grace: number, field: string) =>
        expect(attempt(interval, grace)).to.be.revertedWithCustomError(w.turnpike, "InvalidTerms").withArgs(field);
      await refusal(0n, 0, "interval");
      await attempt(1n, 0);
      await attempt(1_200n, 0);
      await refusal(1_201n, 0, "interval");
      await refusal(2n ** 32n - 1n, 0, "interval");
      for (const months of [1, 12]) {
        const shortest = months * MONTH_DAYS * c.DAY;
        await attempt(BigInt(months), shortest - 1);
        await refusal(BigInt(months), shortest, "grace");
        await refusal(BigInt(months), shortest + 1, "grace");
      }
    });

    it("says so in the view, and gives another id than the same number of seconds", async () => {
      const { w, planId } = await loadFixture(monthly);
      const { terms } = await w.lens.getPlan(planId);
      expect([terms.interval, terms.months, terms.grace]).to.deep.equal([1n, true, BigInt(c.GRACE)]);
      const salt = c.freshSalt();
      const ids = await Promise.all(
        [true, false].map(async (months) =>
          w.turnpike.createPlan.staticCall(await c.termsOf(w, { interval: 1n, months, grace: 0 }), salt, ""),
        ),
      );
      expect(ids[0]).to.not.equal(ids[1]);
    });
  });

  describe("subscribe", () => {
    it("pays until the same day and time of the next month, or its last day, and names the day", async () => {
      const { w, planId } = await loadFixture(monthly);
      for (const [start, end, day] of [
        [utc(2027, 3, 15, 23, 59, 59), utc(2027, 4, 15, 23, 59, 59), 15n],
        [utc(2027, 12, 31, 23, 59, 59), utc(2028, 1, 31, 23, 59, 59), 31n],
        [utc(2028, 1, 31), utc(2028, 2, 29), 31n],
        [utc(2028, 2, 1), utc(2028, 3, 1), 1n],
        [utc(2028, 2, 29), utc(2028, 3, 29), 29n],
      ] as const) {
        const secretHash = c.freshSecretHash();
        const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
        const sent = await c.at(start, () =>
          w.turnpike.connect(w.subscriber).subscribe(...c.signupArgs(w.subscriber, { planId, secretHash })),
        );
        expect(await eventsOf(w, sent)).to.deep.equal([
          ["Subscribed", idHash, planId, w.subscriber.address, 0n, BigInt(end)],
          ["Anchored", idHash, day],
        ]);
        expect((await w.lens.getSubscription(idHash)).anchorDay).to.equal(day);
      }
    });

    it("counts twelve and 1,200 months from a leap day", async () => {
      for (const [interval, end] of [
        [12n, utc(2029, 2, 28, 6)],
        [48n, utc(2032, 2, 29, 6)],
        [1_200n, utc(2128, 2, 29, 6)],
      ] as const) {
        const { w } = await loadFixture(monthly);
        const planId = await c.createPlan(w, { interval, months: true });
        const s = await begin(w, planId, utc(2028, 2, 29, 6));
        expect(await c.paidThroughOf(w, s.idHash)).to.equal(end);
      }
    });

    it("signs unit and interval: a signature for seconds is none for months", async () => {
      const { w, planId } = await loadFixture(monthly);
      const s = await signup(w, { planId });
      for (const shown of [{ unit: "seconds" }, { interval: 2n }, { unit: "month" }]) {
        const signature = await c.sign(w, w.subscriber, "Subscribe", { ...s.message, ...shown });
        await expect(s.signed({}, signature))
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(w.subscriber.address);
      }
      await expect(s.signed()).to.emit(w.turnpike, "Anchored");
    });
  });

  describe("renew", () => {
    it("falls due at the second of the boundary, and not before", async () => {
      const { w, s, due } = await loadFixture(monthly);
      await expect(c.at(due - 1, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "RenewalNotDue")
        .withArgs(s.idHash, due);
      const sent = await c.at(due, () => w.turnpike.renew(s.idHash));
      await expect(sent).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
      expect(await eventsOf(w, sent)).to.deep.equal([["Renewed", s.idHash, BigInt(utc(2027, 3, 31, 12))]]);
    });

    it("returns to the 31st after every shorter month, over two years", async () => {
      const { w, s } = await loadFixture(monthly);
      for (let month = 2; month < 26; month += 1) {
        const due = Date.UTC(2427, month, 0, 12) / 1_000; // the last day of the month before
        const next = Date.UTC(2427, month + 1, 0, 12) / 1_000;
        expect(await renewAt(w, s.idHash, due)).to.deep.equal([["Renewed", s.idHash, BigInt(next)]]);
      }
    });

    it("goes by the calendar in status too: grace and the next boundary, to the second", async () => {
      const { w, s, due } = await loadFixture(monthly);
      const next = utc(2027, 3, 31, 12);
      for (const [moment, status] of [
        [due - 1, c.Status.ACTIVE],
        [due, c.Status.ACTIVE],
        [due + c.GRACE - 1, c.Status.ACTIVE],
        [due + c.GRACE, c.Status.PAST_DUE],
        [due + c.GRACE + 1, c.Status.PAST_DUE],
        [next - 1, c.Status.PAST_DUE],
        [next, c.Status.EXPIRED],
        [next + 1, c.Status.EXPIRED],
      ] as const) {
        await c.statusAt(w, s.idHash, moment);
        const blockTag = await ethers.provider.getBlockNumber();
        expect(await w.turnpike.statusOf(s.idHash, { blockTag }), `${moment - due} s after`).to.equal(status);
      }
      await expect(w.turnpike.renew(s.idHash))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.EXPIRED);
    });

    it("is continuous in grace, and starts grace ago after it", async () => {
      for (const [late, end, anchored] of [
        [c.GRACE - 1, utc(2027, 3, 31, 12), []],
        [c.GRACE, utc(2027, 3, 31, 12), []],
        // The start is still on February's last day: the 31st is kept.
        [c.GRACE + 1, utc(2027, 3, 31, 12, 0, 1), []],
        [c.GRACE + 12 * 3_600 - 1, utc(2027, 3, 31, 23, 59, 59), []],
        // From midnight on the day is the 1st of March.
        [c.GRACE + 12 * 3_600, utc(2027, 4, 1), [1n]],
        [c.GRACE + 10 * c.DAY, utc(2027, 4, 10, 12), [10n]],
      ] as const) {
        const { w, s, due } = await loadFixture(monthly);
        expect(await renewAt(w, s.idHash, due + late), `${late} s late`).to.deep.equal([
          ...anchored.map((day) => ["Anchored", s.idHash, day]),
          ["Renewed", s.idHash, BigInt(end)],
        ]);
      }
    });

    it("starts a new cycle of the allowance", async () => {
      const { w, planId } = await loadFixture(monthly);
      await w.turnpike.connect(w.provider).setOperator(planId, w.operator, c.Right.DEBIT);
      const s = await begin(w, planId, utc(2027, 5, 31), 100n);
      const operator = w.turnpike.connect(w.operator);
      await operator.debit(s.idHash, 100n, 0n);
      await renewAt(w, s.idHash, utc(2027, 6, 30));
      await operator.debit(s.idHash, 100n, 1n);
      expect((await w.lens.getAllowance(s.idHash)).remaining).to.equal(0n);
    });

    it("collects in a batch as alone", async () => {
      const { w, s, due } = await loadFixture(monthly);
      const sent = await c.at(due, () => w.turnpike.renewBatch([s.idHash, s.idHash]));
      expect(await eventsOf(w, sent)).to.deep.equal([
        ["Renewed", s.idHash, BigInt(utc(2027, 3, 31, 12))],
        ["RenewalFailed", s.idHash, c.reasonOf(w, "RenewalNotDue")],
      ]);
    });
  });

  describe("resume", () => {
    it("starts a paused month where it is paid, and takes the day", async () => {
      const { w, me, s } = await loadFixture(monthly);
      await me.pause(s.idHash, c.NO_AUTH);
      const sent = await c.at(utc(2027, 4, 17, 8), () => me.resume(s.idHash, c.PRICE, c.NO_AUTH));
      expect(await eventsOf(w, sent)).to.deep.equal([
        ["Anchored", s.idHash, 17n],
        ["Resumed", s.idHash, c.PRICE, BigInt(utc(2027, 5, 17, 8))],
      ]);
    });

    it("keeps the day when it is paid on a month's last day", async () => {
      const { w, me, s } = await loadFixture(monthly);
      await me.pause(s.idHash, c.NO_AUTH);
      const sent = await c.at(utc(2027, 4, 30, 8), () => me.resume(s.idHash, c.PRICE, c.NO_AUTH));
      expect(await eventsOf(w, sent)).to.deep.equal([["Resumed", s.idHash, c.PRICE, BigInt(utc(2027, 5, 31, 8))]]);
    });

    it("starts an expired month grace ago", async () => {
      const { w, me, s } = await loadFixture(monthly);
      const sent = await c.at(utc(2027, 5, 20, 12), () => me.resume(s.idHash, c.PRICE, c.NO_AUTH));
      expect(await eventsOf(w, sent)).to.deep.equal([
        ["Anchored", s.idHash, 17n],
        ["Resumed", s.idHash, c.PRICE, BigInt(utc(2027, 6, 17, 12))],
      ]);
    });

    it("changes nothing while the month is paid", async () => {
      const { w, me, s, due } = await loadFixture(monthly);
      await me.pause(s.idHash, c.NO_AUTH);
      const sent = await c.at(due - 1, () => me.resume(s.idHash, 0n, c.NO_AUTH));
      expect(await eventsOf(w, sent)).to.deep.equal([["Resumed", s.idHash, 0n, BigInt(due)]]);
      expect((await w.lens.getSubscription(s.idHash)).anchorDay).to.equal(31n);
    });
  });

  describe("changePlan", () => {
    it("credits the rest of the month by its own length, rounded down", async () => {
      const { w, me, s, due } = await loadFixture(monthly);
      const dearer = await c.createPlan(w, { amount: 3n * c.PRICE, interval: 1n, months: true });
      const now = utc(2027, 2, 17, 11, 59, 59);
      const credit = (c.PRICE * BigInt(due - now)) / BigInt(28 * c.DAY);
      const sent = await c.at(now, () => me.changePlan(s.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH));
      expect(await eventsOf(w, sent)).to.deep.equal([
        ["Anchored", s.idHash, 17n],
        ["PlanChanged", s.idHash, dearer, 0n, 3n * c.PRICE - credit, BigInt(utc(2027, 3, 17, 11, 59, 59))],
      ]);
    });

    it("credits the whole price in the second of the signup, and never more", async () => {
      const { w, planId, me } = await loadFixture(monthly);
      const twin = await c.createPlan(w, { interval: 1n, months: true });
      for (const start of [utc(2027, 5, 31), utc(2028, 2, 29), utc(2028, 3, 30, 23, 59, 59)]) {
        const secretHash = c.freshSecretHash();
        const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
        const calls = [
          w.turnpike.interface.encodeFunctionData(
            "subscribe",
            c.signupArgs(w.subscriber.address, { planId, secretHash }),
          ),
          w.turnpike.interface.encodeFunctionData("changePlan", [idHash, twin, 0n, 0n, c.NO_AUTH]),
        ];
        const sent = await c.at(start, () => me.multicall(calls));
        await expect(sent).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
      }
    });

    it("goes from seconds to months and back, and its day with it", async () => {
      const { w, planId, me, s } = await loadFixture(monthly);
      const sent = await c.at(utc(2027, 2, 1), () => me.changePlan(s.idHash, w.planId, 0n, c.FOREVER, c.NO_AUTH));
      expect((await eventsOf(w, sent))[0]).to.deep.equal(["Anchored", s.idHash, 0n]);
      const p = utc(2027, 2, 1) + c.INTERVAL;
      expect(await renewAt(w, s.idHash, p)).to.deep.equal([["Renewed", s.idHash, BigInt(p + c.INTERVAL)]]);
      const back = await c.at(utc(2027, 3, 31), () => me.changePlan(s.idHash, planId, 0n, c.FOREVER, c.NO_AUTH));
      expect((await eventsOf(w, back))[0]).to.deep.equal(["Anchored", s.idHash, 31n]);
      expect(await c.paidThroughOf(w, s.idHash)).to.equal(utc(2027, 4, 30));
    });
  });

  describe("vouchers", () => {
    it("count months from the end of a first period in seconds", async () => {
      const { w, planId } = await loadFixture(monthly);
      const trial = await signup(w, { planId, voucher: { firstAmount: 0n, firstInterval: 14 * c.DAY } });
      const sent = await c.at(utc(2028, 1, 17, 9), () => trial.direct());
      const end = utc(2028, 1, 31, 9);
      expect(await eventsOf(w, sent)).to.deep.equal([
        ["VoucherUsed", trial.idHash, w.provider.address, 0n],
        ["Subscribed", trial.idHash, planId, w.subscriber.address, 0n, BigInt(end)],
        ["Anchored", trial.idHash, 31n],
      ]);
      // What is due next is the boundary after the introduction, by the same day.
      await c.statusAt(w, trial.idHash, utc(2028, 2, 29, 9) - 1);
      const blockTag = await ethers.provider.getBlockNumber();
      expect(await w.turnpike.statusOf(trial.idHash, { blockTag })).to.equal(c.Status.PAST_DUE);
    });

    it("are followed by months of the anchor's day", async () => {
      const { w, planId } = await loadFixture(monthly);
      const trial = await signup(w, { planId, voucher: { firstAmount: 0n, firstInterval: 14 * c.DAY } });
      await c.at(utc(2028, 1, 17, 9), () => trial.direct());
      const first = await c.at(utc(2028, 1, 31, 9), () => w.turnpike.renew(trial.idHash));
      await expect(first).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
      expect(await c.paidThroughOf(w, trial.idHash)).to.equal(utc(2028, 2, 29, 9));
      await renewAt(w, trial.idHash, utc(2028, 2, 29, 9));
      expect(await c.paidThroughOf(w, trial.idHash)).to.equal(utc(2028, 3, 31, 9));
    });
  });

  describe("until", () => {
    it("ends a record in months at the later of the paid month's end and the subscriber's own", async () => {
      const { w, planId } = await loadFixture(monthly);
      const s = await signup(w, { planId, until: utc(2027, 6, 1) });
      await c.at(utc(2027, 4, 30), () => s.direct());
      await c.at(utc(2027, 5, 30), () => w.turnpike.renew(s.idHash));
      await c.statusAt(w, s.idHash, utc(2027, 6, 30) - 1);
      const blockTag = await ethers.provider.getBlockNumber();
      expect(await w.turnpike.statusOf(s.idHash, { blockTag })).to.equal(c.Status.ACTIVE);
      await expect(c.at(utc(2027, 6, 30), () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.CANCELLED);
    });
  });

  describe("the last times", () => {
    it("T17 months go on by the calendar over 2100 and 2200, which are no leap years", async () => {
      await reset();
      const w = await loadFixture(c.world);
      const planId = await c.createPlan(w, { interval: 1n, months: true });
      for (const year of [2100, 2200]) {
        const s = await begin(w, planId, date(year, 1, 31, 23, 59, 59));
        const ends = [date(year, 2, 28, 23, 59, 59), date(year, 3, 31, 23, 59, 59), date(year, 4, 30, 23, 59, 59)];
        for (const [i, due] of ends.slice(0, 2).entries()) {
          expect(await renewAt(w, s.idHash, due)).to.deep.equal([
            ["Renewed", s.idHash, BigInt(c.present(ends[i + 1]))],
          ]);
        }
      }
    });

    it("T18 no period ends after the last second of 36 bits: not at signup, by renewal, resumption or change", async () => {
      const { w, planId, me } = await loadFixture(monthly);
      const last = Number(LAST); // 20 August 4147, 07:32:15
      const max = new Date(last * 1_000);
      const fits = Date.UTC(max.getUTCFullYear(), max.getUTCMonth() - 1, max.getUTCDate(), 7, 32, 15) / 1_000;
      const refusal = (sent: Promise<unknown>, paidThrough: number) =>
        expect(sent).to.be.revertedWithCustomError(w.turnpike, "PaidThroughTooLarge").withArgs(paidThrough, LAST);

      const paused = await begin(w, planId, fits - 1);
      const s = await begin(w, planId, fits);
      const word = await w.lens.getSubscription(s.idHash);
      expect([word.paidThrough, word.planId, word.version]).to.deep.equal([LAST, planId, 0n]);
      await refusal(
        c.at(fits + 1, () => me.subscribe(...c.signupArgs(w.subscriber, { planId, secretHash: c.freshSecretHash() }))),
        last + 1,
      );
      const century = await c.createPlan(w, { interval: 1_200n, months: true });
      const beyond = Date.UTC(4247, 6, 20, 7, 32, 17) / 1_000;
      await refusal(
        c.at(fits + 2, () =>
          me.subscribe(...c.signupArgs(w.subscriber, { planId: century, secretHash: c.freshSecretHash() })),
        ),
        beyond,
      );
      await refusal(
        c.at(fits + 3, () => me.changePlan(s.idHash, century, 0n, c.FOREVER, c.NO_AUTH)),
        beyond + 1,
      );
      await me.pause(paused.idHash, c.NO_AUTH);
      const before = await c.recordOf(w, s.idHash);
      await refusal(
        c.at(last - 1, () => me.resume(paused.idHash, c.FOREVER, c.NO_AUTH)),
        Date.UTC(4147, 8, 20, 7, 32, 14) / 1_000,
      );
      await refusal(
        c.at(last, () => w.turnpike.renew(s.idHash)),
        Date.UTC(4147, 8, 20, 7, 32, 15) / 1_000,
      );
      expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
      // The subscriber can always leave.
      await me.cancel(s.idHash, false, c.NO_AUTH);
    });

    it("T18 nor in seconds, where a voucher's first period counts too", async () => {
      const { w, me } = await loadFixture(monthly);
      const last = Number(LAST);
      const intro = await signup(w, { voucher: { firstInterval: 10 } });
      await c.at(last - c.INTERVAL, () =>
        me.subscribe(...c.signupArgs(w.subscriber, { planId: w.planId, secretHash: c.freshSecretHash() })),
      );
      await expect(
        c.at(last - c.INTERVAL + 1, () =>
          me.subscribe(...c.signupArgs(w.subscriber, { planId: w.planId, secretHash: c.freshSecretHash() })),
        ),
      )
        .to.be.revertedWithCustomError(w.turnpike, "PaidThroughTooLarge")
        .withArgs(LAST + 1n, LAST);
      const snapshot = await ethers.provider.send("evm_snapshot", []);
      await c.at(last - 10, () => intro.direct());
      expect((await w.lens.getSubscription(intro.idHash)).paidThrough).to.equal(LAST);
      await expect(c.at(last, () => w.turnpike.renew(intro.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "PaidThroughTooLarge")
        .withArgs(LAST + BigInt(c.INTERVAL), LAST);
      await ethers.provider.send("evm_revert", [snapshot]);
      await expect(c.at(last - 9, () => intro.direct()))
        .to.be.revertedWithCustomError(w.turnpike, "PaidThroughTooLarge")
        .withArgs(LAST + 1n, LAST);
    });
  });
});
