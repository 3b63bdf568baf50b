// setNext: the subscriber's end, and the plan of the next charged period.

import { expect } from "chai";
import { type ContractTransactionResponse, id, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import type { NextTermsStruct } from "../../sdk/src/chain/generated/contracts/Turnpike";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { FAR, NO_TERMS, setNext, signup } from "./support/signups";

const DEARER = 3n * c.PRICE;
const CHEAPER = c.PRICE / 5n;
const OTHER_GRACE = c.DAY;

async function running() {
  const w = await c.world();
  const other = { grace: OTHER_GRACE, payTo: w.stranger.address };
  const cheaper = await c.createPlan(w, { ...other, amount: CHEAPER, interval: c.INTERVAL / 2 });
  const dearer = await c.createPlan(w, { ...other, amount: DEARER, interval: 2 * c.INTERVAL });
  const s = await c.subscribe(w, { maxOverage: 1_000n });
  const me = w.turnpike.connect(w.subscriber);
  const provider = w.turnpike.connect(w.provider);
  return { w, cheaper, dearer, s, me, provider, p: s.paidThrough };
}

/** The names and arguments of Turnpike's events, in their order. */
async function eventsOf(w: c.World, sent: ContractTransactionResponse) {
  const receipt = c.present(await sent.wait());
  const own = receipt.logs.map((log) => w.turnpike.interface.parseLog(log)).filter((log) => log !== null);
  return own.map((log) => [log.name, ...log.args.toArray()]);
}

async function statusIn(w: c.World, idHash: string, timeSec: number): Promise<bigint> {
  await c.statusAt(w, idHash, timeSec);
  return w.turnpike.statusOf(idHash, { blockTag: await ethers.provider.getBlockNumber() });
}

function notActive(w: c.World, sent: Promise<unknown>, idHash: string, status: bigint) {
  return expect(sent).to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive").withArgs(idHash, status);
}

describe("Subscriptions", () => {
  describe("setNext > until", () => {
    it("records the end, replaces it and removes it, each with a version", async () => {
      const { w, s } = await loadFixture(running);
      for (const [until, version] of [
        [FAR, 1n],
        [FAR + 1n, 2n],
        [0n, 3n],
      ] as const) {
        const sent = await setNext(w, s.idHash, until, ZeroHash);
        expect(await eventsOf(w, sent)).to.deep.equal([["NextSet", s.idHash, until, ZeroHash]]);
        const view = await w.lens.getSubscription(s.idHash);
        expect([view.until, view.nextPlanId, view.version]).to.deep.equal([until, ZeroHash, version]);
      }
    });

    it("T7 refuses an end in the past and at the present second, at signup and later", async () => {
      const { w, s, p } = await loadFixture(running);
      let now = p - 1_000;
      for (const past of [1, 0]) {
        now += 10;
        const until = now - past;
        await expect(c.at(now, () => setNext(w, s.idHash, until, ZeroHash)))
          .to.be.revertedWithCustomError(w.turnpike, "UntilReached")
          .withArgs(s.idHash, until);
        for (const form of ["direct", "signed"] as const) {
          now += 10;
          const late = await signup(w, { until: now - past });
          await expect(c.at(now, () => late[form]()))
            .to.be.revertedWithCustomError(w.turnpike, "UntilReached")
            .withArgs(late.idHash, now - past);
          expect(await w.turnpike.statusOf(late.idHash)).to.equal(c.Status.NONE);
        }
      }
      await c.at(now + 10, () => setNext(w, s.idHash, now + 11, ZeroHash));
      expect((await w.lens.getSubscription(s.idHash)).until).to.equal(now + 11);
      const brief = await signup(w, { until: now + 21 });
      await c.at(now + 20, () => brief.direct());
    });

    it("is set at signup too, in both forms", async () => {
      const { w } = await loadFixture(running);
      for (const form of ["direct", "signed"] as const) {
        const s = await signup(w, { until: FAR });
        const events = await eventsOf(w, await s[form]());
        expect(events.map(([name]) => name)).to.deep.equal(["NextSet", "Subscribed"]);
        expect(events[0]).to.deep.equal(["NextSet", s.idHash, FAR, ZeroHash]);
        const view = await w.lens.getSubscription(s.idHash);
        expect([view.until, view.version]).to.deep.equal([FAR, 0n]);
      }
      const s = await signup(w, { until: FAR });
      const signature = await c.sign(w, w.subscriber, "Subscribe", { ...s.message, until: FAR + 1n });
      await expect(s.signed({}, signature))
        .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
        .withArgs(w.subscriber.address);
    });

    it("T8 ends the record for good at the later of the paid period's end and the subscriber's own", async () => {
      for (const [end, last] of [
        [-10, -1], // within the paid period: served to its end
        [0, -1],
        [1, 0], // in grace: served until then
        [c.GRACE, c.GRACE - 1],
      ] as const) {
        const { w, s, p } = await loadFixture(running);
        await setNext(w, s.idHash, p + end, ZeroHash);
        expect(await statusIn(w, s.idHash, p + last), `end ${end}`).to.equal(c.Status.ACTIVE);
        expect(await statusIn(w, s.idHash, p + last + 1), `end ${end}`).to.equal(c.Status.CANCELLED);
        await notActive(w, w.turnpike.renew(s.idHash), s.idHash, c.Status.CANCELLED);
        await notActive(w, setNext(w, s.idHash, FAR, ZeroHash), s.idHash, c.Status.CANCELLED);
        expect(await statusIn(w, s.idHash, p + 3 * c.INTERVAL)).to.equal(c.Status.CANCELLED);
      }
    });

    it("T8 is collected in the last second before the end, a whole period, and never from the end on", async () => {
      const { w, s, p } = await loadFixture(running);
      const until = p + 100;
      await setNext(w, s.idHash, until, ZeroHash);
      const lost = await signup(w, { until });
      await c.at(p - c.INTERVAL + 20, () => lost.direct());
      const sent = c.at(until - 1, () => w.turnpike.renew(s.idHash));
      await expect(sent).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
      expect(await c.paidThroughOf(w, s.idHash)).to.equal(p + c.INTERVAL);
      // A renewal in grace after the end is lost.
      await notActive(
        w,
        c.at(until, () => w.turnpike.renew(lost.idHash)),
        lost.idHash,
        c.Status.CANCELLED,
      );
      expect(await statusIn(w, s.idHash, p + c.INTERVAL - 1)).to.equal(c.Status.ACTIVE);
      expect(await statusIn(w, s.idHash, p + c.INTERVAL)).to.equal(c.Status.CANCELLED);
    });

    it("T8 leaves the end that passed while past due as cancelled, not collectable", async () => {
      const { w, s, p } = await loadFixture(running);
      const until = p + c.GRACE + 50;
      await setNext(w, s.idHash, until, ZeroHash);
      expect(await statusIn(w, s.idHash, until - 1)).to.equal(c.Status.PAST_DUE);
      await notActive(
        w,
        c.at(until, () => w.turnpike.renew(s.idHash)),
        s.idHash,
        c.Status.CANCELLED,
      );
      expect(await w.turnpike.renewBatch.staticCall([s.idHash])).to.deep.equal([
        c.reasonOf(w, "SubscriptionNotActive"),
      ]);
    });

    it("allows debits of the paid period after the end, and none from its last second on", async () => {
      const { w, s, p } = await loadFixture(running);
      const operator = w.turnpike.connect(w.operator);
      await setNext(w, s.idHash, p - 100, ZeroHash);
      await c.at(p - 50, () => operator.debit(s.idHash, 1n, 0n));
      await c.at(p - 1, () => operator.debit(s.idHash, 1n, 1n));
      await notActive(
        w,
        c.at(p, () => operator.debit(s.idHash, 1n, 2n)),
        s.idHash,
        c.Status.CANCELLED,
      );
    });

    it("allows debits in grace until the end", async () => {
      const { w, s, p } = await loadFixture(running);
      const operator = w.turnpike.connect(w.operator);
      await setNext(w, s.idHash, p + 50, ZeroHash);
      await c.at(p + 49, () => operator.debit(s.idHash, 1n, 0n));
      await notActive(
        w,
        c.at(p + 50, () => operator.debit(s.idHash, 1n, 1n)),
        s.idHash,
        c.Status.CANCELLED,
      );
    });

    it("refuses a plan change and its quote from the end on", async () => {
      const { w, s, me, dearer, p } = await loadFixture(running);
      const until = p - 100;
      await setNext(w, s.idHash, until, ZeroHash);
      for (const now of [until, until + 1]) {
        await expect(c.at(now, () => me.changePlan(s.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH)))
          .to.be.revertedWithCustomError(w.turnpike, "UntilReached")
          .withArgs(s.idHash, until);
      }
      await expect(w.turnpike.quoteChange(s.idHash, dearer))
        .to.be.revertedWithCustomError(w.turnpike, "UntilReached")
        .withArgs(s.idHash, until);
    });

    it("stays through a plan change in the last second before it", async () => {
      const { w, s, me, dearer, p } = await loadFixture(running);
      const until = p - 100;
      await setNext(w, s.idHash, until, ZeroHash);
      await c.at(until - 1, () => me.changePlan(s.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH));
      expect((await w.lens.getSubscription(s.idHash)).until).to.equal(until);
      const end = until - 1 + 2 * c.INTERVAL;
      expect(await statusIn(w, s.idHash, end - 1)).to.equal(c.Status.ACTIVE);
      expect(await statusIn(w, s.idHash, end)).to.equal(c.Status.CANCELLED);
    });

    it("allows a free resumption after the end, and no paid one", async () => {
      const { w, s, me, p } = await loadFixture(running);
      await setNext(w, s.idHash, p - 100, ZeroHash);
      await me.pause(s.idHash, c.NO_AUTH);
      await c.at(p - 50, () => me.resume(s.idHash, 0n, c.NO_AUTH));
      await me.pause(s.idHash, c.NO_AUTH);
      await expect(c.at(p, () => me.resume(s.idHash, c.FOREVER, c.NO_AUTH)))
        .to.be.revertedWithCustomError(w.turnpike, "NothingToResume")
        .withArgs(s.idHash, c.Status.CANCELLED);
    });

    it("charges a resumption before the end, and ends after its period", async () => {
      const { w, s, me, p } = await loadFixture(running);
      await setNext(w, s.idHash, p + 100, ZeroHash);
      await me.pause(s.idHash, c.NO_AUTH);
      await expect(c.at(p + 99, () => me.resume(s.idHash, c.PRICE, c.NO_AUTH))).to.changeTokenBalance(
        w.token,
        w.treasury,
        c.PRICE,
      );
      expect(await statusIn(w, s.idHash, p + 98 + c.INTERVAL)).to.equal(c.Status.ACTIVE);
      expect(await statusIn(w, s.idHash, p + 99 + c.INTERVAL)).to.equal(c.Status.CANCELLED);
    });

    it("T9 moves for the subscriber alone: no stranger, operator, payee or provider extends it", async () => {
      const { w, s, p } = await loadFixture(running);
      await setNext(w, s.idHash, p - 100, ZeroHash);
      const auth = { version: 1n, deadline: c.FOREVER, signature: "0x" };
      for (const caller of [w.stranger, w.operator, w.treasury, w.provider]) {
        const as = w.turnpike.connect(caller);
        await expect(as.setNext(s.idHash, FAR, ZeroHash, NO_TERMS, auth))
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(w.subscriber.address);
        await expect(as.setNext(s.idHash, 0n, ZeroHash, NO_TERMS, c.NO_AUTH))
          .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
          .withArgs(s.idHash, caller.address);
        const own = await c.authFor(w, "SetNext", s.idHash, { until: FAR, nextPlanId: ZeroHash }, { signer: caller });
        await expect(as.setNext(s.idHash, FAR, ZeroHash, NO_TERMS, own))
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(w.subscriber.address);
      }
      expect((await w.lens.getSubscription(s.idHash)).until).to.equal(p - 100);
    });

    it("T9 an extension that was signed before another act of the subscriber is worth nothing", async () => {
      const { w, s, p } = await loadFixture(running);
      const longer = { until: FAR, nextPlanId: ZeroHash };
      const auth = await c.authFor(w, "SetNext", s.idHash, longer);
      await setNext(w, s.idHash, p - 100, ZeroHash);
      await expect(w.turnpike.connect(w.provider).setNext(s.idHash, FAR, ZeroHash, NO_TERMS, auth))
        .to.be.revertedWithCustomError(w.turnpike, "StaleVersion")
        .withArgs(s.idHash, 0n, 1n);
    });

    it("ignores the signature in the subscriber's own call", async () => {
      const { w, s, me } = await loadFixture(running);
      const junk = { version: 9n, deadline: 1n, signature: "0x1234" };
      await expect(me.setNext(s.idHash, FAR, ZeroHash, NO_TERMS, junk)).to.emit(w.turnpike, "NextSet");
    });

    it("is set, moved and removed while paused, past due and expired; not when ending, over or unknown", async () => {
      const { w, s, me, p } = await loadFixture(running);
      const [paused, ending] = [await c.subscribe(w), await c.subscribe(w)];
      await me.pause(paused.idHash, c.NO_AUTH);
      await me.cancel(ending.idHash, true, c.NO_AUTH);
      await setNext(w, paused.idHash, FAR, ZeroHash);
      await expect(setNext(w, ending.idHash, FAR, ZeroHash))
        .to.be.revertedWithCustomError(w.turnpike, "Ending")
        .withArgs(ending.idHash);
      await notActive(w, setNext(w, ZeroHash, FAR, ZeroHash), ZeroHash, c.Status.NONE);
      for (const after of [0, c.GRACE, c.INTERVAL]) await c.at(p + after, () => setNext(w, s.idHash, FAR, ZeroHash));
      await notActive(w, setNext(w, ending.idHash, FAR, ZeroHash), ending.idHash, c.Status.CANCELLED);
      await me.cancel(s.idHash, false, c.NO_AUTH);
      await notActive(w, setNext(w, s.idHash, FAR, ZeroHash), s.idHash, c.Status.CANCELLED);
    });
  });

  describe("setNext > what is shown", () => {
    /** As signed by the subscriber, and as its own call. */
    const forms = {
      direct: async (w: c.World, idHash: string, planId: string, shown: NextTermsStruct) =>
        w.turnpike.connect(w.subscriber).setNext(idHash, 0n, planId, shown, c.NO_AUTH),
      signed: async (w: c.World, idHash: string, planId: string, shown: NextTermsStruct) => {
        const { months, ...terms } = shown;
        const unit = planId === ZeroHash ? "" : months ? "months" : "seconds";
        const auth = await c.authFor(w, "SetNext", idHash, { until: 0n, nextPlanId: planId, ...terms, unit });
        return w.turnpike.connect(w.relayer).setNext(idHash, 0n, planId, shown, auth);
      },
    };
    const differs = (w: c.World, sent: Promise<unknown>, planId: string, field: string) =>
      expect(sent).to.be.revertedWithCustomError(w.turnpike, "TermsDiffer").withArgs(planId, field);

    for (const [form, send] of Object.entries(forms)) {
      it(`is each of the next plan's terms, and none without a plan (${form})`, async () => {
        const { w, s, dearer } = await loadFixture(running);
        const own = await c.shownOf(w, dearer);
        for (const [field, wrong] of [
          ["token", { token: w.stranger.address }],
          ["payTo", { payTo: w.treasury.address }],
          ["amount", { amount: DEARER - 1n }],
          ["interval", { interval: 2 * c.INTERVAL + 1 }],
          ["unit", { months: true }],
        ] as const) {
          await differs(w, send(w, s.idHash, dearer, { ...own, ...wrong }), dearer, field);
          await differs(w, send(w, s.idHash, ZeroHash, { ...NO_TERMS, ...wrong }), ZeroHash, field);
        }
        await expect(send(w, s.idHash, dearer, own)).to.emit(w.turnpike, "NextSet");
        await expect(send(w, s.idHash, ZeroHash, NO_TERMS)).to.emit(w.turnpike, "NextSet");
      });

      it(`moves nobody to a thousand times the price, nor to a payee that came after (${form})`, async () => {
        const { w, s, cheaper, provider } = await loadFixture(running);
        const [shown, ruinous] = [await c.shownOf(w, cheaper), await c.createPlan(w, { amount: 1_000n * c.PRICE })];
        await differs(w, send(w, s.idHash, ruinous, { ...shown, payTo: w.treasury.address }), ruinous, "amount");
        await provider.proposePayTo(cheaper, w.relayer.address);
        await w.turnpike.connect(w.stranger).proposePayTo(cheaper, w.relayer.address);
        await differs(w, send(w, s.idHash, cheaper, shown), cheaper, "payTo");
        await expect(send(w, s.idHash, cheaper, { ...shown, payTo: w.relayer.address })).to.emit(w.turnpike, "NextSet");
      });
    }

    it("is what was signed, not what the relayer says", async () => {
      const { w, s, dearer, cheaper } = await loadFixture(running);
      const auth = await c.authFor(w, "SetNext", s.idHash, {
        until: 0n,
        nextPlanId: dearer,
        ...(await c.shownOf(w, cheaper)),
      });
      const sent = w.turnpike.connect(w.relayer).setNext(s.idHash, 0n, dearer, await c.shownOf(w, dearer), auth);
      await expect(sent).to.be.revertedWithCustomError(w.turnpike, "InvalidSignature").withArgs(w.subscriber.address);
    });

    it("is compared again when a scheduled change is kept", async () => {
      const { w, s, dearer, me } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, dearer);
      await differs(w, me.setNext(s.idHash, FAR, dearer, NO_TERMS, c.NO_AUTH), dearer, "token");
      await setNext(w, s.idHash, FAR, dearer);
    });
  });

  describe("setNext > another plan", () => {
    it("applies at the next renewal alone: price, length and payee, from the same start; the cap stays", async () => {
      const { w, s, cheaper, p } = await loadFixture(running);
      const set = await setNext(w, s.idHash, 0n, cheaper);
      expect(await eventsOf(w, set)).to.deep.equal([["NextSet", s.idHash, 0n, cheaper]]);
      await expect(set).to.changeTokenBalance(w.token, w.subscriber, 0n);
      const before = await w.lens.getSubscription(s.idHash);
      expect([before.planId, before.nextPlanId, before.until]).to.deep.equal([w.planId, cheaper, 0n]);

      await expect(c.at(p - 1, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "RenewalNotDue")
        .withArgs(s.idHash, p);
      const sent = await c.at(p, () => w.turnpike.renew(s.idHash));
      const end = p + c.INTERVAL / 2;
      expect(await eventsOf(w, sent)).to.deep.equal([
        ["ChangeMade", s.idHash, cheaper],
        ["Renewed", s.idHash, BigInt(end)],
      ]);
      await expect(sent).to.changeTokenBalances(
        w.token,
        [w.subscriber, w.stranger, w.treasury],
        [-CHEAPER, CHEAPER, 0n],
      );
      const after = await w.lens.getSubscription(s.idHash);
      expect([after.planId, after.nextPlanId, after.version]).to.deep.equal([cheaper, ZeroHash, 1n]);
      expect((await w.lens.getAllowance(s.idHash)).cap).to.equal(1_000n);

      const again = await c.at(end, () => w.turnpike.renew(s.idHash));
      expect(await eventsOf(w, again)).to.deep.equal([["Renewed", s.idHash, BigInt(end + c.INTERVAL / 2)]]);
    });

    it("counts the old plan's grace and next boundary until then", async () => {
      const { w, s, cheaper, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, cheaper);
      for (const [after, status] of [
        [OTHER_GRACE, c.Status.ACTIVE],
        [c.GRACE - 1, c.Status.ACTIVE],
        [c.GRACE, c.Status.PAST_DUE],
        [c.INTERVAL / 2, c.Status.PAST_DUE],
        [c.INTERVAL - 1, c.Status.PAST_DUE],
        [c.INTERVAL, c.Status.EXPIRED],
      ] as const) {
        expect(await statusIn(w, s.idHash, p + after), `${after} s after`).to.equal(status);
      }
    });

    it("starts where a renewal of the old plan would, in grace and after", async () => {
      for (const [late, start] of [
        [c.GRACE - 1, 0],
        [c.GRACE, 0],
        [c.GRACE + 1, 1],
        [c.INTERVAL - 1, c.INTERVAL - 1 - c.GRACE],
      ] as const) {
        const { w, s, cheaper, p } = await loadFixture(running);
        await setNext(w, s.idHash, 0n, cheaper);
        await c.at(p + late, () => w.turnpike.renew(s.idHash));
        expect(await c.paidThroughOf(w, s.idHash), `${late} s late`).to.equal(p + start + c.INTERVAL / 2);
      }
    });

    it("judges debits by the operators of the old plan until then, and of the new one after", async () => {
      const { w, s, dearer, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, dearer);
      const operator = w.turnpike.connect(w.operator);
      await c.at(p, () => operator.debit(s.idHash, 1n, 0n));
      await w.turnpike.renew(s.idHash);
      await expect(operator.debit(s.idHash, 1n, 1n))
        .to.be.revertedWithCustomError(w.turnpike, "NotOperator")
        .withArgs(dearer, w.operator.address);
    });

    it("goes from seconds to months and back at the boundary", async () => {
      const { w, s, p } = await loadFixture(running);
      const monthly = await c.createPlan(w, { interval: 1n, months: true });
      await setNext(w, s.idHash, 0n, monthly);
      const sent = await c.at(p, () => w.turnpike.renew(s.idHash));
      const start = new Date(p * 1_000);
      const [year, month, day] = [start.getUTCFullYear(), start.getUTCMonth(), start.getUTCDate()];
      const last = new Date(Date.UTC(year, month + 2, 0)).getUTCDate();
      const end = Date.UTC(year, month + 1, Math.min(day, last)) / 1_000 + (p % c.DAY);
      expect(await eventsOf(w, sent)).to.deep.equal([
        ["ChangeMade", s.idHash, monthly],
        ["Anchored", s.idHash, BigInt(day)],
        ["Renewed", s.idHash, BigInt(end)],
      ]);
      await setNext(w, s.idHash, 0n, w.planId);
      const back = await c.at(end, () => w.turnpike.renew(s.idHash));
      expect(await eventsOf(w, back)).to.deep.equal([
        ["ChangeMade", s.idHash, w.planId],
        ["Anchored", s.idHash, 0n],
        ["Renewed", s.idHash, BigInt(end + c.INTERVAL)],
      ]);
    });

    it("applies to a paid resumption, paused or expired, and not to a free one", async () => {
      const { w, s, me, cheaper, p } = await loadFixture(running);
      const expired = await c.subscribe(w);
      await setNext(w, s.idHash, 0n, cheaper);
      await setNext(w, expired.idHash, 0n, cheaper);
      await me.pause(s.idHash, c.NO_AUTH);
      const free = await c.at(p - 1, () => me.resume(s.idHash, 0n, c.NO_AUTH));
      expect(await eventsOf(w, free)).to.deep.equal([["Resumed", s.idHash, 0n, BigInt(p)]]);
      expect((await w.lens.getSubscription(s.idHash)).nextPlanId).to.equal(cheaper);

      const now = expired.paidThrough + c.INTERVAL;
      await expect(c.at(now, () => me.resume(expired.idHash, CHEAPER - 1n, c.NO_AUTH)))
        .to.be.revertedWithCustomError(w.turnpike, "ChargeAboveMax")
        .withArgs(CHEAPER, CHEAPER - 1n);
      const paid = await c.at(now + 1, () => me.resume(expired.idHash, CHEAPER, c.NO_AUTH));
      const end = now + 1 - c.GRACE + c.INTERVAL / 2;
      expect(await eventsOf(w, paid)).to.deep.equal([
        ["ChangeMade", expired.idHash, cheaper],
        ["Resumed", expired.idHash, CHEAPER, BigInt(end)],
      ]);
      await expect(paid).to.changeTokenBalance(w.token, w.stranger, CHEAPER);
    });

    it("applies to a record that was paused past its period", async () => {
      const { w, s, me, dearer, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, dearer);
      await me.pause(s.idHash, c.NO_AUTH);
      const paid = await c.at(p, () => me.resume(s.idHash, DEARER, c.NO_AUTH));
      expect(await eventsOf(w, paid)).to.deep.equal([
        ["ChangeMade", s.idHash, dearer],
        ["Resumed", s.idHash, DEARER, BigInt(p + 2 * c.INTERVAL)],
      ]);
    });

    it("needs a period that is paid and goes on: the checks of changePlan", async () => {
      const { w, s, me, cheaper, p } = await loadFixture(running);
      const [ending, paused] = [await c.subscribe(w), await c.subscribe(w)];
      await me.cancel(ending.idHash, true, c.NO_AUTH);
      await me.pause(paused.idHash, c.NO_AUTH);
      await expect(setNext(w, ending.idHash, 0n, cheaper))
        .to.be.revertedWithCustomError(w.turnpike, "Ending")
        .withArgs(ending.idHash);
      await notActive(w, setNext(w, paused.idHash, 0n, cheaper), paused.idHash, c.Status.PAUSED);
      for (const after of [0, 1, c.GRACE - 1]) {
        await expect(c.at(p + after, () => setNext(w, s.idHash, 0n, cheaper)))
          .to.be.revertedWithCustomError(w.turnpike, "RenewalDue")
          .withArgs(s.idHash, p);
      }
      await notActive(
        w,
        c.at(p + c.GRACE, () => setNext(w, s.idHash, 0n, cheaper)),
        s.idHash,
        c.Status.PAST_DUE,
      );
      await notActive(
        w,
        c.at(p + c.INTERVAL, () => setNext(w, s.idHash, 0n, cheaper)),
        s.idHash,
        c.Status.EXPIRED,
      );
    });

    it("is scheduled in the last second of the paid period", async () => {
      const { w, s, cheaper, p } = await loadFixture(running);
      await c.at(p - 1, () => setNext(w, s.idHash, 0n, cheaper));
      await c.at(p, () => w.turnpike.renew(s.idHash));
      expect((await w.lens.getSubscription(s.idHash)).planId).to.equal(cheaper);
    });

    it("keeps to the provider and the token, to another plan that is known and open", async () => {
      const { w, s, provider } = await loadFixture(running);
      const token = await ethers.deployContract("TestToken", ["Other", "OTH", "1", 6]);
      const closed = await c.createPlan(w);
      await provider.deprecatePlan(closed, ZeroHash);
      const mismatched = [
        await c.createPlan(w, {}, w.stranger),
        await c.createPlan(w, { token: await token.getAddress() }),
        w.planId,
      ];
      for (const planId of mismatched) {
        await expect(setNext(w, s.idHash, 0n, planId))
          .to.be.revertedWithCustomError(w.turnpike, "PlanMismatch")
          .withArgs(w.planId, planId);
      }
      await expect(setNext(w, s.idHash, 0n, id("?")))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
      await expect(setNext(w, s.idHash, 0n, closed))
        .to.be.revertedWithCustomError(w.turnpike, "PlanDeprecated")
        .withArgs(closed);
      expect((await w.lens.getSubscription(s.idHash)).version).to.equal(0n);
    });

    it("T10 goes ahead at the renewal although its plan is deprecated, offered or moved meanwhile", async () => {
      const { w, s, cheaper, provider, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, cheaper);
      await provider.deprecatePlan(cheaper, ZeroHash);
      await provider.deprecatePlan(w.planId, ZeroHash);
      await provider.proposePayTo(cheaper, w.provider);
      await w.turnpike.connect(w.stranger).proposePayTo(cheaper, w.provider);
      await provider.offerPlan(cheaper, w.relayer);
      await w.turnpike.connect(w.relayer).acceptPlan(cheaper);
      const sent = await c.at(p, () => w.turnpike.renew(s.idHash));
      await expect(sent).to.changeTokenBalance(w.token, w.relayer, CHEAPER);
      expect((await w.lens.getSubscription(s.idHash)).planId).to.equal(cheaper);
    });

    it("T10 is refused by a paid resumption when its plan is deprecated meanwhile, until it is removed", async () => {
      const { w, s, me, cheaper, provider, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, cheaper);
      await me.pause(s.idHash, c.NO_AUTH);
      await provider.deprecatePlan(cheaper, ZeroHash);
      await expect(c.at(p, () => me.resume(s.idHash, c.FOREVER, c.NO_AUTH)))
        .to.be.revertedWithCustomError(w.turnpike, "PlanDeprecated")
        .withArgs(cheaper);
      await setNext(w, s.idHash, 0n, ZeroHash);
      await expect(me.resume(s.idHash, c.PRICE, c.NO_AUTH)).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
    });

    it("T10 leads out of a deprecated plan by a paid resumption, when its own plan is open", async () => {
      const { w, s, me, cheaper, provider, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, cheaper);
      await me.pause(s.idHash, c.NO_AUTH);
      await provider.deprecatePlan(w.planId, ZeroHash);
      await expect(c.at(p, () => me.resume(s.idHash, CHEAPER, c.NO_AUTH))).to.changeTokenBalance(
        w.token,
        w.stranger,
        CHEAPER,
      );
    });

    it("T10 stays as it was scheduled when the end is set again, paused, in grace or with its plan deprecated", async () => {
      const { w, s, me, cheaper, dearer, provider, p } = await loadFixture(running);
      const paused = await c.subscribe(w);
      for (const idHash of [s.idHash, paused.idHash]) await setNext(w, idHash, 0n, cheaper);
      await me.pause(paused.idHash, c.NO_AUTH);
      await provider.deprecatePlan(cheaper, ZeroHash);
      for (const idHash of [s.idHash, paused.idHash]) {
        await c.at(p + (idHash === s.idHash ? 0 : 1), () => setNext(w, idHash, FAR, cheaper));
        const view = await w.lens.getSubscription(idHash);
        expect([view.until, view.nextPlanId]).to.deep.equal([FAR, cheaper]);
      }
      await expect(setNext(w, s.idHash, FAR, dearer)).to.be.revertedWithCustomError(w.turnpike, "RenewalDue");
    });

    it("is dropped by an end alone, by cancel and by an immediate change; the end is dropped by a change alone", async () => {
      const { w, s, me, cheaper, dearer } = await loadFixture(running);
      const [ended, changed] = [await c.subscribe(w), await c.subscribe(w)];
      for (const idHash of [s.idHash, ended.idHash, changed.idHash]) await setNext(w, idHash, FAR, cheaper);
      const view = async (idHash: string) => {
        const { until, nextPlanId } = await w.lens.getSubscription(idHash);
        return [until, nextPlanId];
      };
      await setNext(w, s.idHash, FAR, ZeroHash);
      expect(await view(s.idHash)).to.deep.equal([FAR, ZeroHash]);
      await setNext(w, s.idHash, 0n, cheaper);
      expect(await view(s.idHash)).to.deep.equal([0n, cheaper]);
      await me.cancel(ended.idHash, true, c.NO_AUTH);
      expect(await view(ended.idHash)).to.deep.equal([FAR, ZeroHash]);
      await me.changePlan(changed.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH);
      expect(await view(changed.idHash)).to.deep.equal([FAR, ZeroHash]);
      const due = await c.paidThroughOf(w, changed.idHash);
      const sent = await c.at(due, () => w.turnpike.renew(changed.idHash));
      expect(await eventsOf(w, sent)).to.deep.equal([["Renewed", changed.idHash, BigInt(due + 2 * c.INTERVAL)]]);
    });

    it("T10 is dropped by the provider only together with the subscription", async () => {
      const { w, s, cheaper, provider, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, cheaper);
      await provider.cancel(s.idHash, true, c.NO_AUTH);
      expect((await w.lens.getSubscription(s.idHash)).nextPlanId).to.equal(ZeroHash);
      expect(await statusIn(w, s.idHash, p)).to.equal(c.Status.CANCELLED);
    });

    it("goes along with rekey, with the end, and leaves nothing at the old record", async () => {
      const { w, s, me, cheaper, p } = await loadFixture(running);
      await setNext(w, s.idHash, FAR, cheaper);
      const fresh = c.freshSecretHash();
      await me.rekey(s.idHash, fresh, c.NO_AUTH);
      const moved = await w.turnpike.idHashOf(w.subscriber, fresh);
      const view = await w.lens.getSubscription(moved);
      expect([view.until, view.nextPlanId, view.version]).to.deep.equal([FAR, cheaper, 0n]);
      const slot = ethers.keccak256(ethers.AbiCoder.defaultAbiCoder().encode(["bytes32", "uint256"], [s.idHash, 2n]));
      expect(await ethers.provider.getStorage(w.turnpike, slot)).to.equal(ZeroHash);
      const sent = await c.at(p, () => w.turnpike.renew(moved));
      expect((await eventsOf(w, sent))[0]).to.deep.equal(["ChangeMade", moved, cheaper]);
      const after = await w.lens.getSubscription(moved);
      expect([after.until, after.nextPlanId]).to.deep.equal([FAR, ZeroHash]);
    });

    it("goes along with rekey without an end, too", async () => {
      const { w, s, me, cheaper, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, cheaper);
      const fresh = c.freshSecretHash();
      await me.rekey(s.idHash, fresh, c.NO_AUTH);
      const moved = await w.turnpike.idHashOf(w.subscriber, fresh);
      const view = await w.lens.getSubscription(moved);
      expect([view.until, view.nextPlanId]).to.deep.equal([0n, cheaper]);
      await c.at(p, () => w.turnpike.renew(moved));
      expect((await w.lens.getSubscription(moved)).planId).to.equal(cheaper);
    });

    it("uses up no change when the charge fails", async () => {
      const { w, s, cheaper, p } = await loadFixture(running);
      await setNext(w, s.idHash, 0n, cheaper);
      await w.token.connect(w.subscriber).approve(w.turnpike, CHEAPER - 1n);
      await expect(c.at(p, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval")
        .withArgs(w.subscriber.address, await w.token.getAddress(), CHEAPER, CHEAPER - 1n);
      await w.turnpike.renewBatch([s.idHash]);
      expect((await w.lens.getSubscription(s.idHash)).nextPlanId).to.equal(cheaper);
      await w.token.connect(w.subscriber).approve(w.turnpike, CHEAPER);
      await w.turnpike.renew(s.idHash);
      expect((await w.lens.getSubscription(s.idHash)).planId).to.equal(cheaper);
    });
  });
});
