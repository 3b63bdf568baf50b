// stopPlan: the provider's one act that ends every charge on a plan.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { id, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { FAR, NO_TERMS, setNext, signup } from "./support/signups";

const DEARER = 3n * c.PRICE;

async function running() {
  const w = await c.world();
  const other = await c.createPlan(w, { amount: DEARER });
  const s = await c.subscribe(w, { maxOverage: 1_000n });
  const me = w.turnpike.connect(w.subscriber);
  const provider = w.turnpike.connect(w.provider);
  const operator = w.turnpike.connect(w.operator);
  return { w, other, s, me, provider, operator, p: s.paidThrough };
}

const isStopped = (w: c.World, sent: Promise<unknown>, planId = w.planId) =>
  expect(sent).to.be.revertedWithCustomError(w.turnpike, "PlanStopped").withArgs(planId);

async function statusIn(w: c.World, idHash: string, timeSec: number): Promise<bigint> {
  await time.increaseTo(timeSec);
  return w.turnpike.statusOf(idHash, { blockTag: await ethers.provider.getBlockNumber() });
}

describe("Plans > stopPlan", () => {
  it("closes the plan too, once, and says so", async () => {
    const { w, other, provider } = await loadFixture(running);
    const sent = provider.stopPlan(w.planId);
    await expect(sent).to.emit(w.turnpike, "PlanClosed").withArgs(w.planId, ZeroHash);
    await expect(sent).to.emit(w.turnpike, "PlanEnded").withArgs(w.planId);
    const plan = await w.lens.getPlan(w.planId);
    expect([plan.stopped, plan.deprecated]).to.deep.equal([true, true]);
    await isStopped(w, provider.stopPlan(w.planId));

    const successor = await c.createPlan(w);
    await provider.deprecatePlan(other, successor);
    await expect(provider.stopPlan(other)).to.not.emit(w.turnpike, "PlanClosed");
    const closed = await w.lens.getPlan(other);
    expect([closed.stopped, closed.successor]).to.deep.equal([true, successor]);
    const live = await w.lens.getPlan(successor);
    expect([live.stopped, live.deprecated]).to.deep.equal([false, false]);
  });

  it("is for the provider alone, on a plan that is known", async () => {
    const { w, provider } = await loadFixture(running);
    for (const caller of [w.treasury, w.operator, w.subscriber, w.stranger]) {
      await expect(w.turnpike.connect(caller).stopPlan(w.planId))
        .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
        .withArgs(w.planId, caller.address);
    }
    await expect(provider.stopPlan(id("?")))
      .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
      .withArgs(id("?"));
  });

  it("charges nothing from then on: no renewal, debit or resumption, alone and in a batch", async () => {
    const { w, s, me, provider, operator, p } = await loadFixture(running);
    const [paused, expired] = [await c.subscribe(w), await c.subscribe(w)];
    await me.pause(paused.idHash, c.NO_AUTH);
    await provider.stopPlan(w.planId);
    await expect(me.resume(s.idHash, c.FOREVER, c.NO_AUTH))
      .to.be.revertedWithCustomError(w.turnpike, "NothingToResume")
      .withArgs(s.idHash, c.Status.ACTIVE);
    const before = await w.token.balanceOf(w.subscriber);
    const debit = { idHash: s.idHash, amount: 1n, index: 0n };
    for (const at of [p - 50, p, p + 20, p + c.GRACE - 50, p + c.GRACE, p + c.INTERVAL, p + 5 * c.INTERVAL]) {
      await time.increaseTo(at - 1);
      await isStopped(
        w,
        c.at(at, () => w.turnpike.renew(s.idHash)),
      );
      await isStopped(w, operator.debit(s.idHash, 1n, 0n));
      const reason = c.reasonOf(w, "PlanStopped");
      expect([...(await w.turnpike.renewBatch.staticCall([s.idHash]))]).to.deep.equal([reason]);
      expect([...(await operator.debitBatch.staticCall([debit]))]).to.deep.equal([reason]);
      if (at > p)
        for (const one of [s, paused, expired]) await isStopped(w, me.resume(one.idHash, c.FOREVER, c.NO_AUTH));
      else if (at === p) await isStopped(w, me.resume(s.idHash, c.FOREVER, c.NO_AUTH));
    }
    expect(await w.token.balanceOf(w.subscriber)).to.equal(before);
  });

  it("leaves what is paid: served to its end, paused or not, and CANCELLED from there on, for good", async () => {
    for (const grace of [0, c.GRACE]) {
      const base = await loadFixture(running);
      const planId = await c.createPlan(base.w, { grace });
      const w = { ...base.w, planId };
      const [s, paused, months] = [
        await c.subscribe(w),
        await c.subscribe(w),
        await c.subscribe(w, { planId: await c.createPlan(w, { months: true, interval: 1, grace }) }),
      ];
      const p = s.paidThrough;
      await base.me.pause(paused.idHash, c.NO_AUTH);
      for (const one of [planId, months.planId]) await base.provider.stopPlan(one);
      expect(await statusIn(w, s.idHash, p - 1)).to.equal(c.Status.ACTIVE);
      expect((await w.lens.getSubscription(s.idHash)).ending).to.equal(true);
      expect(await w.turnpike.statusOf(paused.idHash)).to.equal(c.Status.PAUSED);
      for (const after of [0, 1, c.GRACE, c.INTERVAL, 3 * c.INTERVAL]) {
        expect(await statusIn(w, s.idHash, paused.paidThrough + after), `${after} s after`).to.equal(
          c.Status.CANCELLED,
        );
        expect(await w.turnpike.statusOf(paused.idHash)).to.equal(c.Status.CANCELLED);
        expect((await w.lens.getSubscription(s.idHash)).status).to.equal(c.Status.CANCELLED);
      }
      expect(await w.turnpike.statusOf(months.idHash)).to.equal(c.Status.CANCELLED);
      expect(await w.turnpike.statusOf(id("?"))).to.equal(c.Status.NONE);
    }
  });

  it("ends what is in grace, past due or expired at that moment", async () => {
    for (const after of [0, c.GRACE - 1, c.GRACE, c.INTERVAL + 5]) {
      const { w, s, provider, p } = await loadFixture(running);
      await c.at(p + after, () => provider.stopPlan(w.planId));
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.CANCELLED);
    }
  });

  it("takes no signup, change or scheduled change", async () => {
    const { w, s, other, me, provider, p } = await loadFixture(running);
    const [late, scheduled, paused] = [await signup(w, { planId: other }), await c.subscribe(w), await c.subscribe(w)];
    await setNext(w, scheduled.idHash, 0n, other);
    await setNext(w, paused.idHash, 0n, other);
    await me.pause(paused.idHash, c.NO_AUTH);
    await provider.stopPlan(other);
    for (const form of ["direct", "signed"] as const) await isStopped(w, late[form](), other);
    await isStopped(
      w,
      me.subscribe(...c.signupArgs(w.subscriber, { planId: other, secretHash: c.freshSecretHash() })),
      other,
    );
    await isStopped(w, me.changePlan(s.idHash, other, 0n, c.FOREVER, c.NO_AUTH), other);
    await isStopped(w, me.quoteChange(s.idHash, other), other);
    await isStopped(w, setNext(w, s.idHash, 0n, other), other);
    await isStopped(
      w,
      c.at(paused.paidThrough, () => w.turnpike.renew(scheduled.idHash)),
      other,
    );
    await isStopped(w, me.resume(paused.idHash, c.FOREVER, c.NO_AUTH), other);
    expect(await w.turnpike.statusOf(scheduled.idHash)).to.equal(c.Status.ACTIVE);
    // The change is dropped, and the subscription goes on as it was.
    await setNext(w, scheduled.idHash, 0n, ZeroHash);
    await expect(w.turnpike.renew(scheduled.idHash)).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
    await expect(w.turnpike.renew(s.idHash)).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
    expect(await c.paidThroughOf(w, s.idHash)).to.equal(p + c.INTERVAL);
  });

  it("lets subscribers cancel, rekey, pause, resume for nothing and set an end", async () => {
    const { w, s, me, provider, p } = await loadFixture(running);
    const [later, gone] = [await c.subscribe(w), await c.subscribe(w)];
    await provider.stopPlan(w.planId);
    await me.cancel(gone.idHash, false, c.NO_AUTH);
    await me.cancel(later.idHash, true, c.NO_AUTH);
    await me.pause(s.idHash, c.NO_AUTH);
    await me.resume(s.idHash, 0n, c.NO_AUTH);
    await setNext(w, s.idHash, FAR, ZeroHash);
    await me.setMaxOverage(s.idHash, 1n, c.NO_AUTH);
    const secretHash = c.freshSecretHash();
    await me.rekey(s.idHash, secretHash, c.NO_AUTH);
    const moved = await w.turnpike.idHashOf(w.subscriber, secretHash);
    expect(await w.turnpike.statusOf(moved)).to.equal(c.Status.ACTIVE);
    expect(await w.turnpike.statusOf(gone.idHash)).to.equal(c.Status.CANCELLED);
    expect(await statusIn(w, moved, p)).to.equal(c.Status.CANCELLED);
    const sent = me.setNext(moved, 0n, ZeroHash, NO_TERMS, { version: 0n, deadline: 0n, signature: "0x" });
    await expect(sent).to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive");
  });

  it("lets them change to another plan while the period is paid, with its credit, and renews that", async () => {
    const { w, s, me, other, provider, p } = await loadFixture(running);
    await provider.stopPlan(w.planId);
    const now = p - c.INTERVAL / 2;
    await expect(c.at(now, () => me.changePlan(s.idHash, other, 0n, c.FOREVER, c.NO_AUTH))).to.changeTokenBalance(
      w.token,
      w.treasury,
      DEARER - c.PRICE / 2n,
    );
    await expect(c.at(now + c.INTERVAL, () => w.turnpike.renew(s.idHash))).to.changeTokenBalance(
      w.token,
      w.treasury,
      DEARER,
    );
    const view = await w.lens.getSubscription(s.idHash);
    expect([view.planId, view.ending, view.status]).to.deep.equal([other, false, c.Status.ACTIVE]);
  });

  it("makes no change away from it that was scheduled, and takes none", async () => {
    const { w, s, other, provider, p } = await loadFixture(running);
    const late = await c.subscribe(w);
    await setNext(w, s.idHash, 0n, other);
    await provider.stopPlan(w.planId);
    await isStopped(w, setNext(w, late.idHash, 0n, other));
    await isStopped(
      w,
      c.at(p, () => w.turnpike.renew(s.idHash)),
    );
    expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.CANCELLED);
  });

  it("holds for the next provider and the next payee", async () => {
    const { w, me, provider } = await loadFixture(running);
    const planId = await c.createPlan(w, { payTo: w.provider.address });
    const s = await c.subscribe(w, { planId });
    await provider.stopPlan(planId);
    await provider.offerPlan(planId, w.relayer);
    await w.turnpike.connect(w.relayer).acceptPlan(planId);
    expect((await w.lens.getPlan(planId)).stopped).to.equal(true);
    await isStopped(
      w,
      c.at(s.paidThrough, () => w.turnpike.renew(s.idHash)),
      planId,
    );
    await isStopped(
      w,
      me.subscribe(...c.signupArgs(w.subscriber, { planId, secretHash: c.freshSecretHash() })),
      planId,
    );
  });
});
