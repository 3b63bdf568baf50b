// renew.

import { expect } from "chai";
import { id } from "ethers";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfManyCases } from "./support/deployed-code";

async function subscribed() {
  const w = await c.world();
  return { w, s: await c.subscribe(w) };
}

describe("Renewals", () => {
  describe("renew", () => {
    it("A16 reverts one second before the period ends, and names the time to retry", async () => {
      const { w, s } = await loadFixture(subscribed);
      await expect(c.at(s.paidThrough - 1, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "RenewalNotDue")
        .withArgs(s.idHash, s.paidThrough);
    });

    it("A16 is continuous from the end of the period to the last second of grace", async () => {
      for (const late of [0, 1, c.GRACE - 1]) {
        const { w, s } = await loadFixture(subscribed);
        const sent = c.at(s.paidThrough + late, () => w.turnpike.connect(w.stranger).renew(s.idHash));
        await expect(sent, `${late} s late`)
          .to.emit(w.turnpike, "Renewed")
          .withArgs(s.idHash, s.paidThrough + c.INTERVAL);
        await expect(sent).to.changeTokenBalances(
          w.token,
          [w.subscriber, w.treasury, w.stranger],
          [-c.PRICE, c.PRICE, 0n],
        );
        const record = await c.recordOf(w, s.idHash);
        expect([record.paidThrough, record.version]).to.deep.equal([BigInt(s.paidThrough + c.INTERVAL), 0n]);
      }
    });

    it("starts the period one grace ago when it comes later: what was served is paid, no more", async () => {
      for (const late of [c.GRACE, c.GRACE + 1, c.INTERVAL - 1]) {
        const { w, s } = await loadFixture(subscribed);
        const now = s.paidThrough + late;
        await expect(
          c.at(now, () => w.turnpike.renew(s.idHash)),
          `${late} s late`,
        )
          .to.emit(w.turnpike, "Renewed")
          .withArgs(s.idHash, now - c.GRACE + c.INTERVAL);
      }
    });

    it("A19 collects nothing without the subscriber from expiry on", async () => {
      for (const late of [c.INTERVAL, c.INTERVAL + 1, 12 * c.INTERVAL]) {
        const { w, s } = await loadFixture(subscribed);
        await expect(c.at(s.paidThrough + late, () => w.turnpike.renew(s.idHash)))
          .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
          .withArgs(s.idHash, c.Status.EXPIRED);
      }
    });

    it("A19 L6 charges once after a lapse of 12 intervals: at the resumption, anchored now", async () => {
      const { w, s } = await loadFixture(subscribed);
      const now = s.paidThrough + 12 * c.INTERVAL;
      const before = await w.token.balanceOf(w.treasury);
      await c.at(now, () => w.turnpike.connect(w.subscriber).resume(s.idHash, c.FOREVER, c.NO_AUTH));
      await w.turnpike.renewBatch(Array(12).fill(s.idHash));
      expect((await w.token.balanceOf(w.treasury)) - before).to.equal(c.PRICE);
      expect(await c.paidThroughOf(w, s.idHash)).to.equal(now - c.GRACE + c.INTERVAL);
    });

    it("A17 turns away a queued renewal that another was faster with", async () => {
      const { w, s } = await loadFixture(subscribed);
      await c.at(s.paidThrough, () => w.turnpike.connect(w.stranger).renew(s.idHash));
      await expect(c.at(s.paidThrough, () => w.turnpike.connect(w.relayer).renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "RenewalNotDue")
        .withArgs(s.idHash, s.paidThrough + c.INTERVAL);
    });

    itOfManyCases("A20 drifts by no second over 1,000 renewals at random lateness inside grace", async () => {
      const { w, s } = await loadFixture(subscribed);
      await w.token.mint(w.subscriber, 1_000n * c.PRICE);
      let seed = 20;
      for (let n = 0; n < 1_000; n += 1) {
        seed = (seed * 48_271) % 2_147_483_647;
        await c.at(s.paidThrough + n * c.INTERVAL + (seed % c.GRACE), () => w.turnpike.renew(s.idHash));
      }
      expect(await c.paidThroughOf(w, s.idHash)).to.equal(s.paidThrough + 1_000 * c.INTERVAL);
    });

    it("A12 A35 consumes no period when it fails, and can be retried", async () => {
      const { w, s } = await loadFixture(subscribed);
      const token = await w.token.getAddress();
      await w.token.connect(w.subscriber).approve(w.turnpike, 0n);
      const before = await c.recordOf(w, s.idHash);
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval")
        .withArgs(w.subscriber.address, token, c.PRICE, 0n);
      expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
      await w.token.connect(w.subscriber).approve(w.turnpike, c.PRICE);
      await w.turnpike.renew(s.idHash);

      const left = await w.token.balanceOf(w.subscriber);
      await w.token.connect(w.subscriber).transfer(w.stranger, left);
      await expect(c.at(s.paidThrough + c.INTERVAL, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientFunds")
        .withArgs(w.subscriber.address, token, c.PRICE, 0n);
    });

    it("does not know what was never made", async () => {
      const { w } = await loadFixture(subscribed);
      await expect(w.turnpike.renew(id("?")))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(id("?"), c.Status.NONE);
    });
  });
});
