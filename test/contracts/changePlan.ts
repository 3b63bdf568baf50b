// changePlan and quoteChange.

import { expect } from "chai";
import { id, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

const DEARER = 3n * c.PRICE;

async function upgrade() {
  const w = await c.world();
  const dearer = await c.createPlan(w, { amount: DEARER, interval: 2 * c.INTERVAL });
  const s = await c.subscribe(w, { maxOverage: 100n });
  return { w, dearer, s, me: w.turnpike.connect(w.subscriber) };
}

describe("Subscriptions", () => {
  describe("changePlan", () => {
    it("L7 charges the new price less the credit for the rest, at every moment", async () => {
      for (const remaining of [1, 2, c.INTERVAL / 3, c.INTERVAL - 60]) {
        const { w, dearer, s, me } = await loadFixture(upgrade);
        const now = s.paidThrough - remaining;
        const credit = (c.PRICE * BigInt(remaining)) / BigInt(c.INTERVAL);
        const sent = c.at(now, () => me.changePlan(s.idHash, dearer, 500n, DEARER - credit, c.NO_AUTH));
        await expect(sent, `${remaining} s left`)
          .to.emit(w.turnpike, "PlanChanged")
          .withArgs(s.idHash, dearer, 500n, DEARER - credit, now + 2 * c.INTERVAL);
        await expect(sent).to.changeTokenBalances(
          w.token,
          [w.subscriber, w.treasury],
          [credit - DEARER, DEARER - credit],
        );
        const record = await c.recordOf(w, s.idHash);
        expect([record.planId, record.version]).to.deep.equal([dearer, 1n]);
      }
    });

    it("is quoted beforehand, to the unit", async () => {
      const { w, dearer, s, me } = await loadFixture(upgrade);
      const now = s.paidThrough - 12_345;
      await c.statusAt(w, s.idHash, now);
      const block = await ethers.provider.getBlock("latest");
      const quote = await w.turnpike.quoteChange(s.idHash, dearer, { blockTag: c.present(block).number });
      expect(quote.credit).to.equal((c.PRICE * 12_345n) / BigInt(c.INTERVAL));
      expect(quote.charge).to.equal(DEARER - quote.credit);
      await expect(c.at(now, () => me.changePlan(s.idHash, dearer, 0n, quote.charge - 1n, c.NO_AUTH)))
        .to.be.revertedWithCustomError(w.turnpike, "ChargeAboveMax")
        .withArgs(quote.charge, quote.charge - 1n);
    });

    it("moves what is missing to the last unit, and asks the token for nothing when nothing is", async () => {
      const half = c.PRICE / 2n;
      for (const [amount, charge] of [
        [half, 0n],
        [half + 1n, 1n],
      ] as const) {
        const { w, s, me } = await loadFixture(upgrade);
        const target = await c.createPlan(w, { amount });
        const sent = await c.at(s.paidThrough - c.INTERVAL / 2, () =>
          me.changePlan(s.idHash, target, 0n, charge, c.NO_AUTH),
        );
        await expect(sent).to.changeTokenBalance(w.token, w.treasury, charge);
        if (charge === 0n) await expect(sent).to.not.emit(w.token, "Transfer");
      }
    });

    it("resets the allowance, and keeps the count of debits", async () => {
      const { w, dearer, s, me } = await loadFixture(upgrade);
      const operator = w.turnpike.connect(w.operator);
      await operator.debit(s.idHash, 60n, 0n);
      await me.changePlan(s.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH);
      const record = await c.recordOf(w, s.idHash);
      expect([record.cap, record.spent, record.cycle, record.debits]).to.deep.equal([0n, 0n, record.paidThrough, 1n]);
      // The operator of the old plan has no say on the new one.
      await expect(operator.debit(s.idHash, 1n, 1n))
        .to.be.revertedWithCustomError(w.turnpike, "NotOperator")
        .withArgs(dearer, w.operator.address);
      await me.setMaxOverage(s.idHash, 10n, c.NO_AUTH);
      await w.turnpike.connect(w.provider).debit(s.idHash, 10n, 1n);
    });

    it("makes an allowance where there was none, and none where none is asked for", async () => {
      const { w, dearer, me } = await loadFixture(upgrade);
      const [with_, without] = [await c.subscribe(w), await c.subscribe(w)];
      await me.changePlan(with_.idHash, dearer, 1n, c.FOREVER, c.NO_AUTH);
      await me.changePlan(without.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH);
      expect((await c.recordOf(w, with_.idHash)).cap).to.equal(1n);
      expect((await c.recordOf(w, without.idHash)).cycle).to.equal(0n);
      await expect(me.changePlan((await c.subscribe(w)).idHash, dearer, c.MAX_CAP + 1n, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "CapTooLarge")
        .withArgs(c.MAX_CAP + 1n, c.MAX_CAP);
    });

    it("never finds an old cycle's spending again when a shorter interval brings paidThrough back", async () => {
      const { w, s, me } = await loadFixture(upgrade);
      const short = await c.createPlan(w, { interval: c.INTERVAL / 30, grace: 0 });
      await w.turnpike.connect(w.operator).debit(s.idHash, 100n, 0n);
      // Days are left when it changes; renewals then lead to the second at which the old cycle ended.
      await c.at(s.paidThrough - 2 * c.DAY, () => me.changePlan(s.idHash, short, 100n, c.FOREVER, c.NO_AUTH));
      await c.at(s.paidThrough - c.DAY, () => w.turnpike.renew(s.idHash));
      const record = await c.recordOf(w, s.idHash);
      expect([record.paidThrough, record.spent]).to.deep.equal([BigInt(s.paidThrough), 0n]);
    });

    it("moves nothing when nothing is to be charged", async () => {
      const { w, me } = await loadFixture(upgrade);
      const same = await c.createPlan(w, { interval: 2 * c.INTERVAL });
      const secretHash = c.freshSecretHash();
      const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
      await w.token.connect(w.subscriber).approve(w.turnpike, c.PRICE);
      // In the block of the signup the whole period is left: the credit is the price.
      const calls = [
        w.turnpike.interface.encodeFunctionData(
          "subscribe",
          c.signupArgs(w.subscriber.address, { planId: w.planId, secretHash }),
        ),
        w.turnpike.interface.encodeFunctionData("changePlan", [idHash, same, 0n, 0n, c.NO_AUTH]),
      ];
      await expect(me.multicall(calls)).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
      expect((await c.recordOf(w, idHash)).planId).to.equal(same);
    });

    it("refuses a change that the credit would more than pay", async () => {
      const { w, s, me } = await loadFixture(upgrade);
      const cheap = await c.createPlan(w, { amount: c.PRICE / 2n });
      const now = s.paidThrough - c.INTERVAL / 2;
      await expect(c.at(now - 60, () => me.changePlan(s.idHash, cheap, 0n, c.FOREVER, c.NO_AUTH)))
        .to.be.revertedWithCustomError(w.turnpike, "CreditExceedsPrice")
        .withArgs((c.PRICE * BigInt(c.INTERVAL / 2 + 60)) / BigInt(c.INTERVAL), c.PRICE / 2n);
      await expect(c.at(now, () => me.changePlan(s.idHash, cheap, 0n, 0n, c.NO_AUTH)))
        .to.emit(w.turnpike, "PlanChanged")
        .withArgs(s.idHash, cheap, 0n, 0n, now + c.INTERVAL);
    });

    it("A30 A37 keeps to the provider and the token, and to another plan", async () => {
      const { w, s, me } = await loadFixture(upgrade);
      const token = await ethers.deployContract("TestToken", ["Other", "OTH", "1", 6]);
      const mismatched = [
        await c.createPlan(w, { amount: DEARER }, w.stranger),
        await c.createPlan(w, { amount: DEARER, token: await token.getAddress() }),
        w.planId,
      ];
      for (const planId of mismatched) {
        await expect(me.changePlan(s.idHash, planId, 0n, c.FOREVER, c.NO_AUTH))
          .to.be.revertedWithCustomError(w.turnpike, "PlanMismatch")
          .withArgs(w.planId, planId);
        await expect(w.turnpike.quoteChange(s.idHash, planId)).to.be.revertedWithCustomError(
          w.turnpike,
          "PlanMismatch",
        );
      }
      await expect(me.changePlan(s.idHash, id("?"), 0n, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
    });

    it("A37 charges for the payee of the new plan, which the subscriber signed or called for", async () => {
      const { w, s, me } = await loadFixture(upgrade);
      const elsewhere = await c.createPlan(w, { amount: DEARER, payTo: w.stranger.address });
      const sent = await me.changePlan(s.idHash, elsewhere, 0n, c.FOREVER, c.NO_AUTH);
      await expect(sent).to.changeTokenBalance(w.token, w.treasury, 0n);
      expect(await w.token.balanceOf(w.stranger)).to.be.at.least(DEARER - c.PRICE);
      const due = await c.paidThroughOf(w, s.idHash);
      await expect(c.at(due, () => w.turnpike.renew(s.idHash))).to.changeTokenBalance(w.token, w.stranger, DEARER);
    });

    it("A38 needs a period that is paid: neither due, nor ending, nor paused, nor over", async () => {
      const { w, dearer, s, me } = await loadFixture(upgrade);
      const [ending, paused] = [await c.subscribe(w), await c.subscribe(w)];
      await me.cancel(ending.idHash, true, c.NO_AUTH);
      await me.pause(paused.idHash, c.NO_AUTH);
      await expect(me.changePlan(ending.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "Ending")
        .withArgs(ending.idHash);
      await expect(me.changePlan(paused.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(paused.idHash, c.Status.PAUSED);
      await expect(me.changePlan(ZeroHash, dearer, 0n, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(ZeroHash, c.Status.NONE);
      for (const after of [0, c.GRACE - 1]) {
        await expect(c.at(s.paidThrough + after, () => me.changePlan(s.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH)))
          .to.be.revertedWithCustomError(w.turnpike, "RenewalDue")
          .withArgs(s.idHash, s.paidThrough);
      }
      await expect(c.at(s.paidThrough + c.GRACE, () => me.changePlan(s.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH)))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.PAST_DUE);
    });

    it("A38 gives no free service to one that oscillates: time served is paid at the plan's rate", async () => {
      const { w, s, me } = await loadFixture(upgrade);
      const twin = await c.createPlan(w);
      const start = await w.token.balanceOf(w.subscriber);
      let now = s.paidThrough - c.INTERVAL;
      for (let i = 0; i < 20; i += 1) {
        now += c.DAY;
        await c.at(now, () => me.changePlan(s.idHash, i % 2 === 0 ? twin : w.planId, 0n, c.FOREVER, c.NO_AUTH));
      }
      const paid = start - (await w.token.balanceOf(w.subscriber));
      // 20 days were used and paid on top; rounding favours the provider, by at most a unit each time.
      const owed = (c.PRICE * 20n) / 30n;
      expect(paid >= owed && paid <= owed + 20n, `paid ${paid}, owed ${owed}`).to.equal(true);
      expect(await c.paidThroughOf(w, s.idHash)).to.equal(now + c.INTERVAL);
    });

    it("is signed over the new plan's terms that a wallet shows, each as it is now", async () => {
      const { w, dearer, s } = await loadFixture(upgrade);
      const fields = { newPlanId: dearer, maxOverage: 0n, maxCharge: c.FOREVER };
      const send = (auth: Awaited<ReturnType<typeof c.authFor>>) =>
        w.turnpike.connect(w.relayer).changePlan(s.idHash, dearer, 0n, c.FOREVER, auth);
      for (const shown of [
        { token: w.stranger.address },
        { payTo: w.stranger.address },
        { amount: DEARER - 1n },
        { interval: c.INTERVAL },
        { unit: "months" },
      ]) {
        const auth = await c.authFor(w, "ChangePlan", s.idHash, { ...fields, ...shown });
        await expect(send(auth), Object.keys(shown).join())
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(w.subscriber.address);
      }
      await expect(send(await c.authFor(w, "ChangePlan", s.idHash, fields))).to.emit(w.turnpike, "PlanChanged");
    });

    it("leaves all as it was when the charge fails", async () => {
      const { w, dearer, s, me } = await loadFixture(upgrade);
      await w.token.connect(w.subscriber).approve(w.turnpike, 0n);
      const before = await c.recordOf(w, s.idHash);
      await expect(me.changePlan(s.idHash, dearer, 1n, c.FOREVER, c.NO_AUTH)).to.be.revertedWithCustomError(
        w.turnpike,
        "InsufficientApproval",
      );
      expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
      await expect(w.turnpike.connect(w.provider).changePlan(s.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
        .withArgs(s.idHash, w.provider.address);
    });
  });
});
