// The lens: what Turnpike stores, as structs, and the words that it is read by.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { getCreateAddress, id, type Result, ZeroAddress, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { FAR, setNext, signup } from "./support/signups";

/** A struct's fields by name, of which the generated types know nothing. */
function fieldsOf(struct: unknown): Record<string, unknown> {
  return (struct as Result).toObject();
}

describe("TurnpikeLens", () => {
  it("is the first contract that its Turnpike creates, and reads that one alone", async () => {
    const w = await loadFixture(c.world);
    const address = getCreateAddress({ from: await w.turnpike.getAddress(), nonce: 1 });
    expect(await w.lens.getAddress()).to.equal(address);
    expect(await w.lens.turnpike()).to.equal(await w.turnpike.getAddress());
    const twin = await c.lensOf(await ethers.deployContract("Turnpike"));
    expect((await twin.getPlan(w.planId)).planId).to.equal(ZeroHash);
  });

  it("shows each field of a subscription, while the status goes by the block's time", async () => {
    const w = await loadFixture(c.world);
    const next = await c.createPlan(w);
    const s = await signup(w, { maxOverage: 50n, until: FAR, voucher: { firstAmount: 2n, firstInterval: 1_000 } });
    await s.direct();
    await setNext(w, s.idHash, FAR + 5n, next);
    const paidThrough = BigInt(await c.paidThroughOf(w, s.idHash));
    const view = {
      idHash: s.idHash,
      subscriber: w.subscriber.address,
      planId: w.planId,
      paidThrough,
      version: 1n,
      paused: false,
      ending: false,
      cancelled: false,
      intro: true,
      anchorDay: 0n,
      until: FAR + 5n,
      nextPlanId: next,
      status: c.Status.ACTIVE,
    };
    const shown = async () => fieldsOf(await w.lens.getSubscription(s.idHash));
    expect(await shown()).to.deep.equal(view);
    const me = w.turnpike.connect(w.subscriber);
    await me.pause(s.idHash, c.NO_AUTH);
    expect(await shown()).to.deep.equal({ ...view, version: 2n, paused: true, status: c.Status.PAUSED });
    await me.cancel(s.idHash, true, c.NO_AUTH);
    const ending = { ...view, version: 3n, paused: true, ending: true, nextPlanId: ZeroHash };
    expect(await shown()).to.deep.equal({ ...ending, status: c.Status.PAUSED });
    await time.increaseTo(paidThrough);
    expect(await shown()).to.deep.equal({ ...ending, status: c.Status.CANCELLED });
  });

  it("shows no end and no plan that are left over from before", async () => {
    const w = await loadFixture(c.world);
    const next = await c.createPlan(w);
    const s = await c.subscribe(w);
    await setNext(w, s.idHash, FAR, next);
    // The change applies and leaves its half of the word behind.
    await c.at(s.paidThrough, () => w.turnpike.renew(s.idHash));
    const view = await w.lens.getSubscription(s.idHash);
    expect([view.planId, view.nextPlanId, view.until]).to.deep.equal([next, ZeroHash, FAR]);
    const [state] = await w.lens.getStates([s.idHash]);
    expect(state?.subscription).to.deep.equal(view);
  });

  it("agrees with statusOf at every boundary", async () => {
    const w = await loadFixture(c.world);
    const s = await c.subscribe(w);
    const limited = await signup(w, { until: s.paidThrough + 50 });
    await limited.direct();
    for (const after of [-1, 0, 1, 49, 50, 51, c.GRACE - 1, c.GRACE, c.INTERVAL - 1, c.INTERVAL]) {
      await time.increaseTo(s.paidThrough + after);
      for (const idHash of [s.idHash, limited.idHash]) {
        const view = await w.lens.getSubscription(idHash);
        expect(view.status, `${after} s after`).to.equal(await w.turnpike.statusOf(idHash));
      }
    }
  });

  it("shows each field of a plan through its life", async () => {
    const w = await loadFixture(c.world);
    const provider = w.turnpike.connect(w.provider);
    const payTo = w.provider.address;
    const planId = await c.createPlan(w, { interval: 12n, months: true, grace: 5, payTo });
    const view = async () => {
      const plan = await w.lens.getPlan(planId);
      return { ...fieldsOf(plan), terms: [...plan.terms] };
    };
    const terms = [await w.token.getAddress(), c.PRICE, 12n, true, 5n, payTo];
    const fresh = {
      planId,
      index: 2n,
      provider: w.provider.address,
      terms,
      deprecated: false,
      stopped: false,
      successor: ZeroHash,
      firstPayTo: payTo,
      proposedPayTo: ZeroAddress,
      effectiveAt: 0n,
      nextProvider: ZeroAddress,
    };
    expect(await view()).to.deep.equal(fresh);
    const now = (await time.latest()) + 10;
    await c.at(now, () => provider.proposePayTo(planId, w.stranger));
    await provider.offerPlan(planId, w.relayer);
    const effectiveAt = BigInt(now + 7 * c.DAY);
    const moving = { proposedPayTo: w.stranger.address, effectiveAt, nextProvider: w.relayer.address };
    expect(await view()).to.deep.equal({ ...fresh, ...moving });
    await provider.deprecatePlan(planId, w.planId);
    await w.turnpike.connect(w.relayer).acceptPlan(planId);
    const handed = { ...fresh, provider: w.relayer.address, deprecated: true, successor: w.planId };
    expect(await view()).to.deep.equal({ ...handed, terms: [...terms.slice(0, 5), w.relayer.address] });
    const next = w.turnpike.connect(w.relayer);
    await next.proposePayTo(planId, w.stranger);
    await time.increase(7 * c.DAY);
    await next.applyPayTo(planId);
    const moved = { ...handed, terms: [...terms.slice(0, 5), w.stranger.address] };
    expect(await view()).to.deep.equal(moved);
    await next.stopPlan(planId);
    expect(await view()).to.deep.equal({ ...moved, stopped: true });
  });

  it("answers zero for what is unknown: records, plans and rights", async () => {
    const w = await loadFixture(c.world);
    const record = await w.lens.getSubscription(id("?"));
    expect([record.subscriber, record.planId, record.status]).to.deep.equal([ZeroAddress, ZeroHash, c.Status.NONE]);
    expect([...(await w.lens.getAllowance(id("?")))]).to.deep.equal([0n, 0n, 0n, 0n, 0n]);
    const plan = await w.lens.getPlan(id("?"));
    expect([plan.planId, plan.index, plan.firstPayTo]).to.deep.equal([ZeroHash, 0n, ZeroAddress]);
    expect(await w.lens.rightsOf(id("?"), w.provider)).to.equal(0n);
    expect(await w.lens.getStates([])).to.deep.equal([]);
    expect(await w.lens.getPlans([])).to.deep.equal([]);
  });

  it("reads any words of Turnpike's storage, in their order", async () => {
    const w = await loadFixture(c.world);
    const slots = [7n, 0n, 7n].map((slot) => ethers.toBeHex(slot, 32));
    const one = ethers.toBeHex(1n, 32); // the number of plans
    expect([...(await w.turnpike.words(slots))]).to.deep.equal([one, ZeroHash, one]);
    expect([...(await w.turnpike.words([]))]).to.deep.equal([]);
  });
});
