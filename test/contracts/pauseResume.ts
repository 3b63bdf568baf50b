// pause and resume.

import { expect } from "chai";
import { id } from "ethers";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

describe("Subscriptions", () => {
  describe("pause", () => {
    it("stops service and collection, and bumps the version", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      await expect(w.turnpike.connect(w.subscriber).pause(s.idHash, c.NO_AUTH))
        .to.emit(w.turnpike, "Paused")
        .withArgs(s.idHash);
      const record = await c.recordOf(w, s.idHash);
      expect([record.paused, record.version, record.paidThrough]).to.deep.equal([true, 1n, BigInt(s.paidThrough)]);
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.PAUSED);
    });

    it("A38 is refused from the second the period ends on: what grace served must be paid", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const late = await c.subscribe(w);
      const me = w.turnpike.connect(w.subscriber);
      await c.at(s.paidThrough - 1, () => me.pause(s.idHash, c.NO_AUTH));
      for (const after of [0, 1, c.GRACE - 1]) {
        await expect(c.at(late.paidThrough + after, () => me.pause(late.idHash, c.NO_AUTH)))
          .to.be.revertedWithCustomError(w.turnpike, "RenewalDue")
          .withArgs(late.idHash, late.paidThrough);
      }
      await expect(c.at(late.paidThrough + c.GRACE, () => me.pause(late.idHash, c.NO_AUTH)))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(late.idHash, c.Status.PAST_DUE);
    });

    it("A38 goes together with the renewal in one multicall", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const calls = [
        w.turnpike.interface.encodeFunctionData("renew", [s.idHash]),
        w.turnpike.interface.encodeFunctionData("pause", [s.idHash, c.NO_AUTH]),
      ];
      await c.at(s.paidThrough + 5, () => w.turnpike.connect(w.subscriber).multicall(calls));
      const record = await c.recordOf(w, s.idHash);
      expect([record.paused, record.paidThrough]).to.deep.equal([true, BigInt(s.paidThrough + c.INTERVAL)]);
    });

    it("is refused when paused already, unknown, or another's", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const me = w.turnpike.connect(w.subscriber);
      await expect(w.turnpike.connect(w.provider).pause(s.idHash, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
        .withArgs(s.idHash, w.provider.address);
      await me.pause(s.idHash, c.NO_AUTH);
      await expect(me.pause(s.idHash, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.PAUSED);
      await expect(me.pause(id("?"), c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(id("?"), c.Status.NONE);
    });
  });

  describe("resume", () => {
    async function paused(w: c.World) {
      const s = await c.subscribe(w);
      await w.turnpike.connect(w.subscriber).pause(s.idHash, c.NO_AUTH);
      return s;
    }

    it("is free of charge until the paid period ends", async () => {
      const w = await loadFixture(c.world);
      const s = await paused(w);
      const sent = c.at(s.paidThrough - 1, () => w.turnpike.connect(w.subscriber).resume(s.idHash, 0n, c.NO_AUTH));
      await expect(sent).to.emit(w.turnpike, "Resumed").withArgs(s.idHash, 0n, s.paidThrough);
      await expect(sent).to.changeTokenBalance(w.token, w.subscriber, 0n);
      const record = await c.recordOf(w, s.idHash);
      expect([record.paused, record.version]).to.deep.equal([false, 2n]);
    });

    it("charges a period from now when it was paused and the period has ended", async () => {
      for (const after of [0, 1, 12 * c.INTERVAL]) {
        const w = await loadFixture(c.world);
        const s = await paused(w);
        const now = s.paidThrough + after;
        const sent = c.at(now, () => w.turnpike.connect(w.subscriber).resume(s.idHash, c.PRICE, c.NO_AUTH));
        await expect(sent, `${after} s late`)
          .to.emit(w.turnpike, "Resumed")
          .withArgs(s.idHash, c.PRICE, now + c.INTERVAL);
        await expect(sent).to.changeTokenBalances(w.token, [w.subscriber, w.treasury], [-c.PRICE, c.PRICE]);
      }
    });

    it("charges the grace that was served when it has expired", async () => {
      for (const after of [0, 1, 12 * c.INTERVAL]) {
        const w = await loadFixture(c.world);
        const s = await c.subscribe(w);
        const now = s.paidThrough + c.INTERVAL + after;
        const sent = c.at(now, () => w.turnpike.connect(w.subscriber).resume(s.idHash, c.PRICE, c.NO_AUTH));
        await expect(sent, `${after} s after expiry`)
          .to.emit(w.turnpike, "Resumed")
          .withArgs(s.idHash, c.PRICE, now - c.GRACE + c.INTERVAL);
        await expect(sent).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
        expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.ACTIVE);
      }
    });

    it("charges no more than was allowed", async () => {
      const w = await loadFixture(c.world);
      const s = await paused(w);
      await expect(
        c.at(s.paidThrough, () => w.turnpike.connect(w.subscriber).resume(s.idHash, c.PRICE - 1n, c.NO_AUTH)),
      )
        .to.be.revertedWithCustomError(w.turnpike, "ChargeAboveMax")
        .withArgs(c.PRICE, c.PRICE - 1n);
    });

    it("finds nothing to resume when ACTIVE, PAST_DUE or CANCELLED", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const ended = await c.subscribe(w);
      const me = w.turnpike.connect(w.subscriber);
      await me.cancel(ended.idHash, false, c.NO_AUTH);
      const refusal = (act: Promise<unknown>, idHash: string, status: bigint) =>
        expect(act).to.be.revertedWithCustomError(w.turnpike, "NothingToResume").withArgs(idHash, status);
      await refusal(me.resume(s.idHash, c.FOREVER, c.NO_AUTH), s.idHash, c.Status.ACTIVE);
      await refusal(me.resume(ended.idHash, c.FOREVER, c.NO_AUTH), ended.idHash, c.Status.CANCELLED);
      const last = s.paidThrough + c.INTERVAL - 1;
      await refusal(
        c.at(last, () => me.resume(s.idHash, c.FOREVER, c.NO_AUTH)),
        s.idHash,
        c.Status.PAST_DUE,
      );
    });

    it("does not bring back what was paused and has ended with its period", async () => {
      const w = await loadFixture(c.world);
      const s = await paused(w);
      const me = w.turnpike.connect(w.subscriber);
      await me.cancel(s.idHash, true, c.NO_AUTH);
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.PAUSED);
      await expect(c.at(s.paidThrough, () => me.resume(s.idHash, c.FOREVER, c.NO_AUTH)))
        .to.be.revertedWithCustomError(w.turnpike, "NothingToResume")
        .withArgs(s.idHash, c.Status.CANCELLED);
    });

    it("leaves all as it was when the charge fails", async () => {
      const w = await loadFixture(c.world);
      const s = await paused(w);
      await w.token.connect(w.subscriber).approve(w.turnpike, 0n);
      const before = await c.recordOf(w, s.idHash);
      await expect(
        c.at(s.paidThrough, () => w.turnpike.connect(w.subscriber).resume(s.idHash, c.FOREVER, c.NO_AUTH)),
      ).to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval");
      expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
    });

    it("is the subscriber's alone", async () => {
      const w = await loadFixture(c.world);
      const s = await paused(w);
      await expect(w.turnpike.connect(w.provider).resume(s.idHash, 0n, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
        .withArgs(s.idHash, w.provider.address);
    });
  });
});
