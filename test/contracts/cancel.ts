// cancel.

import { setBalance } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { id } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

describe("Subscriptions", () => {
  describe("cancel", () => {
    it("ends at once, for good", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w, { maxOverage: 10n });
      const me = w.turnpike.connect(w.subscriber);
      await expect(me.cancel(s.idHash, false, c.NO_AUTH))
        .to.emit(w.turnpike, "Cancelled")
        .withArgs(s.idHash, false, w.subscriber.address);
      const record = await c.recordOf(w, s.idHash);
      expect([record.cancelled, record.ending, record.version]).to.deep.equal([true, false, 1n]);

      // L11: nothing moves this subscriber's funds for it any more.
      const gone = (act: Promise<unknown>) =>
        expect(act)
          .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
          .withArgs(s.idHash, c.Status.CANCELLED);
      await gone(w.turnpike.connect(w.operator).debit(s.idHash, 1n, 0n));
      await gone(me.cancel(s.idHash, false, c.NO_AUTH));
      await gone(me.pause(s.idHash, c.NO_AUTH));
      await gone(me.setMaxOverage(s.idHash, 1n, c.NO_AUTH));
      await gone(me.rekey(s.idHash, c.freshSecretHash(), c.NO_AUTH));
      await gone(me.changePlan(s.idHash, await c.createPlan(w), 0n, c.FOREVER, c.NO_AUTH));
      await gone(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash)));
      await expect(me.resume(s.idHash, c.FOREVER, c.NO_AUTH)).to.be.revertedWithCustomError(
        w.turnpike,
        "NothingToResume",
      );
    });

    it("ends with the period: served and debited until then, never renewed", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w, { maxOverage: 10n });
      await expect(w.turnpike.connect(w.subscriber).cancel(s.idHash, true, c.NO_AUTH))
        .to.emit(w.turnpike, "Cancelled")
        .withArgs(s.idHash, true, w.subscriber.address);
      expect((await c.recordOf(w, s.idHash)).ending).to.equal(true);
      await expect(w.turnpike.renew(s.idHash)).to.be.revertedWithCustomError(w.turnpike, "Ending").withArgs(s.idHash);

      const operator = w.turnpike.connect(w.operator);
      await c.at(s.paidThrough - 1, () => operator.debit(s.idHash, 1n, 0n));
      for (const act of [() => operator.debit(s.idHash, 1n, 1n), () => w.turnpike.renew(s.idHash)]) {
        await expect(c.at(s.paidThrough, act))
          .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
          .withArgs(s.idHash, c.Status.CANCELLED);
      }
    });

    it("can be hastened or repeated while ending, but not undone", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const me = w.turnpike.connect(w.subscriber);
      await me.cancel(s.idHash, true, c.NO_AUTH);
      await me.cancel(s.idHash, true, c.NO_AUTH);
      await me.pause(s.idHash, c.NO_AUTH);
      await me.resume(s.idHash, 0n, c.NO_AUTH);
      expect((await c.recordOf(w, s.idHash)).ending).to.equal(true);
      await me.cancel(s.idHash, false, c.NO_AUTH);
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.CANCELLED);
    });

    it("is immediate from the end of the paid period on, in every status", async () => {
      for (const after of [0, c.GRACE, c.INTERVAL]) {
        const w = await loadFixture(c.world);
        const s = await c.subscribe(w);
        await expect(
          c.at(s.paidThrough + after, () => w.turnpike.connect(w.subscriber).cancel(s.idHash, true, c.NO_AUTH)),
        )
          .to.emit(w.turnpike, "Cancelled")
          .withArgs(s.idHash, false, w.subscriber.address);
        const record = await c.recordOf(w, s.idHash);
        expect([record.cancelled, record.ending]).to.deep.equal([true, false]);
      }
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      await c.at(s.paidThrough - 1, () => w.turnpike.connect(w.subscriber).cancel(s.idHash, true, c.NO_AUTH));
      expect((await c.recordOf(w, s.idHash)).cancelled).to.equal(false);
    });

    it("lets the provider end it with the period only, without voiding the subscriber's signatures", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const auth = await c.authFor(w, "Cancel", s.idHash, { atPeriodEnd: false });
      const provider = w.turnpike.connect(w.provider);
      await expect(provider.cancel(s.idHash, false, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
        .withArgs(s.idHash, w.provider.address);
      await expect(provider.cancel(s.idHash, true, c.NO_AUTH))
        .to.emit(w.turnpike, "Cancelled")
        .withArgs(s.idHash, true, w.provider.address);
      const record = await c.recordOf(w, s.idHash);
      expect([record.ending, record.version]).to.deep.equal([true, 0n]);
      await w.turnpike.connect(w.relayer).cancel(s.idHash, false, auth);
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.CANCELLED);
    });

    it("names the subscriber in the event, also when the provider brings the subscriber's signature", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const auth = await c.authFor(w, "Cancel", s.idHash, { atPeriodEnd: true });
      await expect(w.turnpike.connect(w.provider).cancel(s.idHash, true, auth))
        .to.emit(w.turnpike, "Cancelled")
        .withArgs(s.idHash, true, w.subscriber.address);
      expect((await c.recordOf(w, s.idHash)).version).to.equal(1n);
    });

    it("is refused to everyone else, for either end", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      for (const atPeriodEnd of [true, false]) {
        for (const caller of [w.operator, w.treasury, w.stranger]) {
          await expect(w.turnpike.connect(caller).cancel(s.idHash, atPeriodEnd, c.NO_AUTH))
            .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
            .withArgs(s.idHash, caller.address);
        }
      }
      await expect(w.turnpike.cancel(id("?"), true, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(id("?"), c.Status.NONE);
    });

    it("works when the provider subscribes to its own plan: the subscriber's rights come first", async () => {
      const w = await loadFixture(c.world);
      await w.token.mint(w.provider, 2n * c.PRICE);
      await w.token.connect(w.provider).approve(w.turnpike, 2n * c.PRICE);
      for (const atPeriodEnd of [true, false]) {
        const s = await c.subscribe(w, { subscriber: w.provider });
        await w.turnpike.connect(w.provider).cancel(s.idHash, atPeriodEnd, c.NO_AUTH);
        expect((await c.recordOf(w, s.idHash)).version).to.equal(1n);
      }
    });

    it("A12 works while the token does not, and when there is no token any more", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      await ethers.provider.send("hardhat_setCode", [await w.token.getAddress(), "0x"]);
      await setBalance(w.subscriber.address, 10n ** 18n);
      await w.turnpike.connect(w.subscriber).cancel(s.idHash, false, c.NO_AUTH);
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.CANCELLED);
    });

    it("A25 costs at most one period when it races a renewal, and nothing after", async () => {
      for (const cancelFirst of [true, false]) {
        const w = await loadFixture(c.world);
        const s = await c.subscribe(w);
        const me = w.turnpike.connect(w.subscriber);
        const before = await w.token.balanceOf(w.subscriber);
        await ethers.provider.send("evm_setAutomine", [false]);
        const [cancel, renew] = [
          {
            to: w.turnpike,
            data: me.interface.encodeFunctionData("cancel", [s.idHash, false, c.NO_AUTH]),
            gasLimit: 200_000n,
          },
          { to: w.turnpike, data: me.interface.encodeFunctionData("renew", [s.idHash]), gasLimit: 200_000n },
        ];
        const fast = { maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 10n };
        await w.subscriber.sendTransaction({ ...cancel, ...(cancelFirst ? fast : {}) });
        await w.relayer.sendTransaction({ ...renew, ...(cancelFirst ? {} : fast) });
        await ethers.provider.send("evm_setNextBlockTimestamp", [s.paidThrough]);
        await ethers.provider.send("evm_mine");
        await ethers.provider.send("evm_setAutomine", [true]);
        expect(before - (await w.token.balanceOf(w.subscriber))).to.equal(cancelFirst ? 0n : c.PRICE);
        expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.CANCELLED);
        await expect(c.at(s.paidThrough + c.INTERVAL, () => w.turnpike.renew(s.idHash))).to.be.revertedWithCustomError(
          w.turnpike,
          "SubscriptionNotActive",
        );
      }
    });
  });
});
