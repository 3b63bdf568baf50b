// rekey.

import { expect } from "chai";
import { ZeroHash } from "ethers";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

describe("Subscriptions", () => {
  describe("rekey", () => {
    it("moves record, allowance and debit count, and leaves a tombstone", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w, { maxOverage: 100n });
      await w.turnpike.connect(w.operator).debit(s.idHash, 30n, 0n);
      const me = w.turnpike.connect(w.subscriber);
      await me.setMaxOverage(s.idHash, 90n, c.NO_AUTH);
      const before = await c.recordOf(w, s.idHash);
      const fresh = c.freshSecretHash();
      const newIdHash = await w.turnpike.idHashOf(w.subscriber, fresh);

      const sent = me.rekey(s.idHash, fresh, c.NO_AUTH);
      await expect(sent).to.emit(w.turnpike, "Rekeyed").withArgs(s.idHash, newIdHash);
      await expect(sent).to.changeTokenBalance(w.token, w.subscriber, 0n);
      expect(await c.recordOf(w, newIdHash)).to.deep.equal({ ...before, version: 0n });
      const old = await c.recordOf(w, s.idHash);
      expect([old.cancelled, old.version, old.cap, old.debits]).to.deep.equal([true, 2n, 0n, 0n]);

      const operator = w.turnpike.connect(w.operator);
      await expect(operator.debit(s.idHash, 1n, 1n)).to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive");
      await operator.debit(newIdHash, 60n, 1n);
      await expect(operator.debit(newIdHash, 1n, 2n)).to.be.revertedWithCustomError(w.turnpike, "AllowanceExhausted");
      await c.at(s.paidThrough, () => w.turnpike.renew(newIdHash));
    });

    it("works without an allowance, and keeps pause and end", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const me = w.turnpike.connect(w.subscriber);
      await me.cancel(s.idHash, true, c.NO_AUTH);
      await me.pause(s.idHash, c.NO_AUTH);
      const fresh = c.freshSecretHash();
      await me.rekey(s.idHash, fresh, c.NO_AUTH);
      const record = await c.recordOf(w, await w.turnpike.idHashOf(w.subscriber, fresh));
      expect([record.paused, record.ending, record.cancelled, record.cycle]).to.deep.equal([true, true, false, 0n]);
    });

    it("works in every status short of the end", async () => {
      for (const after of [0, c.GRACE, c.INTERVAL]) {
        const w = await loadFixture(c.world);
        const s = await c.subscribe(w);
        await c.at(s.paidThrough + after, () =>
          w.turnpike.connect(w.subscriber).rekey(s.idHash, c.freshSecretHash(), c.NO_AUTH),
        );
      }
    });

    it("refuses a used secret, its own included, an ended record, an unknown one and strangers", async () => {
      const w = await loadFixture(c.world);
      const [s, other] = [await c.subscribe(w), await c.subscribe(w)];
      const me = w.turnpike.connect(w.subscriber);
      for (const used of [s, other]) {
        await expect(me.rekey(s.idHash, used.secretHash, c.NO_AUTH))
          .to.be.revertedWithCustomError(w.turnpike, "IdHashUsed")
          .withArgs(used.idHash);
      }
      await expect(w.turnpike.connect(w.provider).rekey(s.idHash, c.freshSecretHash(), c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
        .withArgs(s.idHash, w.provider.address);
      await expect(me.rekey(ZeroHash, c.freshSecretHash(), c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(ZeroHash, c.Status.NONE);
      await me.rekey(s.idHash, c.freshSecretHash(), c.NO_AUTH);
      await expect(me.rekey(s.idHash, c.freshSecretHash(), c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.CANCELLED);
    });
  });
});
