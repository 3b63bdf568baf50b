// void: the subscriber's own call, and its signature.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { type Signer, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { FAR, setNext, signup } from "./support/signups";

/** A signed `Void`, which a relayer sends. */
async function voiding(w: c.World, secretHash: string, options: { signer?: Signer; deadline?: bigint } = {}) {
  const { signer = w.subscriber, deadline = c.FOREVER } = options;
  const message = { subscriber: w.subscriber.address, secretHash, deadline };
  const signature = await c.sign(w, signer, "Void", message);
  const send = (changed: Partial<{ of: string; secretHash: string; deadline: bigint; signature: string }> = {}) =>
    w.turnpike
      .connect(w.relayer)
      .void(
        changed.of ?? w.subscriber.address,
        changed.secretHash ?? secretHash,
        changed.deadline ?? deadline,
        changed.signature ?? signature,
      );
  return { message, signature, send };
}

describe("Subscriptions", () => {
  describe("void", () => {
    it("T11 withdraws a signup that is signed and not used, in both forms, and for good", async () => {
      const w = await loadFixture(c.world);
      for (const form of ["direct", "signed"] as const) {
        const plain = await signup(w, { maxOverage: 5n, until: FAR });
        const secretHash = c.freshSecretHash();
        const old = { subscriber: w.subscriber.address, planId: w.planId, secretHash, maxOverage: 0n };
        const signature = await c.sign(w, w.subscriber, "Subscribe", { ...old, deadline: c.FOREVER });
        const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
        for (const [hash, id] of [
          [plain.secretHash, plain.idHash],
          [secretHash, idHash],
        ] as const) {
          const sent =
            form === "direct"
              ? w.turnpike.connect(w.subscriber).void(w.subscriber, hash, 0n, "0x")
              : (await voiding(w, hash)).send();
          await expect(sent).to.emit(w.turnpike, "Voided").withArgs(id, w.subscriber.address);
        }
        await expect(plain.signed()).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(plain.idHash);
        await expect(
          w.turnpike.subscribe(
            ...c.signupArgs(w.subscriber, { planId: w.planId, secretHash }, { deadline: c.FOREVER, signature }),
          ),
        )
          .to.be.revertedWithCustomError(w.turnpike, "IdHashUsed")
          .withArgs(idHash);
        expect(await w.token.balanceOf(w.treasury)).to.equal(0n);
      }
    });

    it("leaves a cancelled record on which every act fails", async () => {
      const w = await loadFixture(c.world);
      const me = w.turnpike.connect(w.subscriber);
      const secretHash = c.freshSecretHash();
      const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
      await me.void(w.subscriber, secretHash, 0n, "0x");
      const view = await w.lens.getSubscription(idHash);
      expect([view.subscriber, view.cancelled, view.version, view.paidThrough, view.planId]).to.deep.equal([
        w.subscriber.address,
        true,
        0n,
        0n,
        ZeroHash,
      ]);
      expect([view.status, await w.turnpike.statusOf(idHash)]).to.deep.equal([c.Status.CANCELLED, c.Status.CANCELLED]);
      const acts = [
        () => me.pause(idHash, c.NO_AUTH),
        () => me.cancel(idHash, false, c.NO_AUTH),
        () => me.cancel(idHash, true, c.NO_AUTH),
        () => me.setMaxOverage(idHash, 1n, c.NO_AUTH),
        () => me.changePlan(idHash, w.planId, 0n, c.FOREVER, c.NO_AUTH),
        () => setNext(w, idHash, FAR, ZeroHash),
        () => me.rekey(idHash, c.freshSecretHash(), c.NO_AUTH),
        () => w.turnpike.renew(idHash),
        () => w.turnpike.connect(w.operator).debit(idHash, 1n, 0n),
      ];
      for (const act of acts) {
        await expect(act())
          .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
          .withArgs(idHash, c.Status.CANCELLED);
      }
      await expect(me.resume(idHash, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "NothingToResume")
        .withArgs(idHash, c.Status.CANCELLED);
      // No rekey reaches it either.
      const s = await c.subscribe(w);
      await expect(me.rekey(s.idHash, secretHash, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "IdHashUsed")
        .withArgs(idHash);
    });

    it("refuses a used idHash: running, cancelled, rekeyed away or voided already", async () => {
      const w = await loadFixture(c.world);
      const me = w.turnpike.connect(w.subscriber);
      const [running, ended, moved] = [await c.subscribe(w), await c.subscribe(w), await c.subscribe(w)];
      await me.cancel(ended.idHash, false, c.NO_AUTH);
      await me.rekey(moved.idHash, c.freshSecretHash(), c.NO_AUTH);
      const voided = c.freshSecretHash();
      await me.void(w.subscriber, voided, 0n, "0x");
      for (const secretHash of [running.secretHash, ended.secretHash, moved.secretHash, voided]) {
        const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
        const refusal = (sent: Promise<unknown>) =>
          expect(sent).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(idHash);
        await refusal(me.void(w.subscriber, secretHash, 0n, "0x"));
        await refusal((await voiding(w, secretHash)).send());
      }
      expect(await w.turnpike.statusOf(running.idHash)).to.equal(c.Status.ACTIVE);
    });

    it("T11 voids nothing of another subscriber with the same secret's hash", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w);
      await w.turnpike.connect(w.stranger).void(w.stranger, s.secretHash, 0n, "0x");
      await expect(s.signed()).to.emit(w.turnpike, "Subscribed");
    });
  });

  describe("void, signed", () => {
    it("holds until its deadline, inclusive", async () => {
      const w = await loadFixture(c.world);
      const deadline = (await time.latest()) + 1_000;
      const [early, late] = [
        await voiding(w, c.freshSecretHash(), { deadline: BigInt(deadline) }),
        await voiding(w, c.freshSecretHash(), { deadline: BigInt(deadline) }),
      ];
      await c.at(deadline, () => early.send());
      await expect(c.at(deadline + 1, () => late.send()))
        .to.be.revertedWithCustomError(w.turnpike, "SignatureExpired")
        .withArgs(deadline);
    });

    it("covers subscriber, secret and deadline, on this chain and contract alone", async () => {
      const w = await loadFixture(c.world);
      const secretHash = c.freshSecretHash();
      const v = await voiding(w, secretHash);
      const refusal = (sent: Promise<unknown>, of = w.subscriber.address) =>
        expect(sent).to.be.revertedWithCustomError(w.turnpike, "InvalidSignature").withArgs(of);
      await refusal(v.send({ of: w.stranger.address }), w.stranger.address);
      await refusal(v.send({ secretHash: c.freshSecretHash() }));
      await refusal(v.send({ deadline: c.FOREVER - 1n }));
      await refusal((await voiding(w, secretHash, { signer: w.stranger })).send());
      const other = await ethers.deployContract("Turnpike");
      for (const domain of [{ chainId: 1n }, { verifyingContract: await other.getAddress() }]) {
        await refusal(v.send({ signature: await c.sign(w, w.subscriber, "Void", v.message, domain) }));
      }
      await expect(v.send()).to.emit(w.turnpike, "Voided");
    });
  });
});
