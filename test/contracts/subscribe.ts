// subscribe: the subscriber's own call, and its signature.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { AbiCoder, id, keccak256, type Signer, ZeroHash } from "ethers";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

describe("Subscriptions", () => {
  describe("subscribe", () => {
    it("charges the first period and records what was bought", async () => {
      const w = await loadFixture(c.world);
      const secretHash = c.freshSecretHash();
      const idHash = keccak256(
        AbiCoder.defaultAbiCoder().encode(["address", "bytes32"], [w.subscriber.address, secretHash]),
      );
      const now = (await time.latest()) + 10;

      const sent = c.at(now, () =>
        w.turnpike.connect(w.subscriber).subscribe(...c.signupArgs(w.subscriber, { planId: w.planId, secretHash })),
      );
      await expect(sent)
        .to.emit(w.turnpike, "Subscribed")
        .withArgs(idHash, w.planId, w.subscriber.address, 0n, now + c.INTERVAL);
      await expect(sent).to.changeTokenBalances(w.token, [w.subscriber, w.treasury], [-c.PRICE, c.PRICE]);
      expect(await w.turnpike.idHashOf(w.subscriber, secretHash)).to.equal(idHash);
      expect(await c.recordOf(w, idHash)).to.deep.equal({
        subscriber: w.subscriber.address,
        planId: w.planId,
        paidThrough: BigInt(now + c.INTERVAL),
        version: 0n,
        paused: false,
        ending: false,
        cancelled: false,
        cap: 0n,
        spent: 0n,
        cycle: 0n,
        debits: 0n,
      });
    });

    it("makes an allowance when a cap is given", async () => {
      const w = await loadFixture(c.world);
      for (const maxOverage of [1n, c.MAX_CAP]) {
        const s = await c.subscribe(w, { maxOverage });
        const record = await c.recordOf(w, s.idHash);
        expect([record.cap, record.spent, record.cycle]).to.deep.equal([maxOverage, 0n, BigInt(s.paidThrough)]);
      }
      await expect(
        w.turnpike.connect(w.subscriber).subscribe(
          ...c.signupArgs(w.subscriber, {
            planId: w.planId,
            secretHash: c.freshSecretHash(),
            maxOverage: c.MAX_CAP + 1n,
          }),
        ),
      )
        .to.be.revertedWithCustomError(w.turnpike, "CapTooLarge")
        .withArgs(c.MAX_CAP + 1n, c.MAX_CAP);
    });

    it("refuses an unknown plan", async () => {
      const w = await loadFixture(c.world);
      await expect(
        w.turnpike
          .connect(w.subscriber)
          .subscribe(...c.signupArgs(w.subscriber, { planId: id("?"), secretHash: ZeroHash })),
      )
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
    });

    it("A36 refuses a used idHash, also of an ended record, and takes any other at once", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const again = () =>
        w.turnpike
          .connect(w.subscriber)
          .subscribe(...c.signupArgs(w.subscriber, { planId: w.planId, secretHash: s.secretHash }));
      await expect(again()).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(s.idHash);
      await w.turnpike.connect(w.subscriber).cancel(s.idHash, false, c.NO_AUTH);
      await expect(again()).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(s.idHash);
      await c.subscribe(w);
    });

    it("A22 is not blocked by a stranger that squats the secret's hash", async () => {
      const w = await loadFixture(c.world);
      const secretHash = c.freshSecretHash();
      await w.token.mint(w.stranger, c.PRICE);
      await w.token.connect(w.stranger).approve(w.turnpike, c.PRICE);
      await c.subscribe(w, { secretHash, subscriber: w.stranger });
      const s = await c.subscribe(w, { secretHash });
      expect((await w.lens.getSubscription(s.idHash)).subscriber).to.equal(w.subscriber.address);
    });

    it("names what is missing, and records nothing", async () => {
      const w = await loadFixture(c.world);
      const token = await w.token.getAddress();
      const secretHash = c.freshSecretHash();
      const idHash = await w.turnpike.idHashOf(w.stranger, secretHash);
      const attempt = () =>
        w.turnpike
          .connect(w.stranger)
          .subscribe(...c.signupArgs(w.stranger, { planId: w.planId, secretHash, maxOverage: 5n }));

      await w.token.mint(w.stranger, c.PRICE - 1n);
      await expect(attempt())
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientFunds")
        .withArgs(w.stranger.address, token, c.PRICE, c.PRICE - 1n);
      await w.token.mint(w.stranger, 1n);
      await w.token.connect(w.stranger).approve(w.turnpike, c.PRICE - 1n);
      await expect(attempt())
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval")
        .withArgs(w.stranger.address, token, c.PRICE, c.PRICE - 1n);
      expect(await w.turnpike.statusOf(idHash)).to.equal(c.Status.NONE);

      await w.token.connect(w.stranger).approve(w.turnpike, c.PRICE);
      await attempt();
      expect(await w.turnpike.statusOf(idHash)).to.equal(c.Status.ACTIVE);
    });
  });

  describe("subscribe, signed", () => {
    async function signup(w: c.World, overrides: { signer?: Signer; maxOverage?: bigint; deadline?: bigint } = {}) {
      const { signer = w.subscriber, maxOverage = 0n, deadline = c.FOREVER } = overrides;
      const secretHash = c.freshSecretHash();
      const subscriber = await signer.getAddress();
      const message = { subscriber, planId: w.planId, secretHash, maxOverage, deadline };
      const signature = await c.sign(w, signer, "Subscribe", message);
      const idHash = await w.turnpike.idHashOf(subscriber, secretHash);
      const send = (permit?: c.Permit) =>
        w.turnpike
          .connect(w.relayer)
          .subscribe(
            ...c.signupArgs(subscriber, { planId: w.planId, secretHash, maxOverage }, { permit, deadline, signature }),
          );
      return { ...message, signature, idHash, send };
    }

    /** Has funds, but has approved nothing. */
    async function newcomer(w: c.World) {
      await w.token.mint(w.stranger, 10n * c.PRICE);
      return w.stranger;
    }

    it("does the same for a subscriber without gas, with a permit in the same transaction", async () => {
      const w = await loadFixture(c.world);
      const signer = await newcomer(w);
      const s = await signup(w, { signer, maxOverage: 7n });
      await expect(s.send(await c.signPermit(w, signer, 3n * c.PRICE)))
        .to.emit(w.turnpike, "Subscribed")
        .withArgs(s.idHash, w.planId, signer.address, 7n, (paidThrough: bigint) => paidThrough > 0n);
      expect(await w.token.allowance(signer, w.turnpike)).to.equal(2n * c.PRICE);
      expect((await c.recordOf(w, s.idHash)).cap).to.equal(7n);
    });

    it("A1 succeeds when a stranger has submitted the permit first, whatever was approved before", async () => {
      for (const prior of [0n, 1n, 100n * c.PRICE]) {
        const w = await loadFixture(c.world);
        const signer = await newcomer(w);
        await w.token.connect(signer).approve(w.turnpike, prior);
        const s = await signup(w, { signer });
        const permit = await c.signPermit(w, signer, c.PRICE);
        await w.token[c.PERMIT_VRS](signer, w.turnpike, permit.value, permit.deadline, permit.v, permit.r, permit.s);
        await expect(s.send(permit), `prior approval ${prior}`).to.emit(w.turnpike, "Subscribed");
      }
    });

    it("A1 A22 succeeds without its permit when the approval suffices already", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w);
      await expect(s.send()).to.emit(w.turnpike, "Subscribed");
    });

    it("A2 A22 names the missing approval when the permit is invalid or left out, and can be sent again with it", async () => {
      const w = await loadFixture(c.world);
      const signer = await newcomer(w);
      const s = await signup(w, { signer });
      const permit = await c.signPermit(w, signer, c.PRICE);
      const token = await w.token.getAddress();
      for (const bad of [undefined, { ...permit, value: c.PRICE + 1n }, { ...permit, deadline: 1n }]) {
        await expect(s.send(bad))
          .to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval")
          .withArgs(signer.address, token, c.PRICE, 0n);
      }
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.NONE);
      expect(await w.token.nonces(signer)).to.equal(0n);
      await expect(s.send(permit)).to.emit(w.turnpike, "Subscribed");
    });

    it("A2 refuses a permit on an unknown plan as such", async () => {
      const w = await loadFixture(c.world);
      const message = {
        subscriber: w.subscriber.address,
        planId: id("?"),
        secretHash: ZeroHash,
        maxOverage: 0n,
        deadline: c.FOREVER,
      };
      const signature = await c.sign(w, w.subscriber, "Subscribe", message);
      const permit = await c.signPermit(w, w.subscriber, 1n);
      await expect(
        w.turnpike.subscribe(
          ...c.signupArgs(
            w.subscriber,
            { planId: message.planId, secretHash: ZeroHash },
            { permit, deadline: c.FOREVER, signature },
          ),
        ),
      ).to.be.revertedWithCustomError(w.turnpike, "UnknownPlan");
    });

    it("A3 A36 cannot be replayed: not while it runs, not after cancel, not after rekey", async () => {
      const w = await loadFixture(c.world);
      const [first, second] = [await signup(w), await signup(w)];
      await first.send();
      await expect(first.send()).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(first.idHash);
      await w.turnpike.connect(w.subscriber).cancel(first.idHash, false, c.NO_AUTH);
      await expect(first.send()).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(first.idHash);
      await second.send();
      await w.turnpike.connect(w.subscriber).rekey(second.idHash, c.freshSecretHash(), c.NO_AUTH);
      await expect(second.send()).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(second.idHash);
    });

    it("holds until its deadline, inclusive", async () => {
      const w = await loadFixture(c.world);
      const deadline = (await time.latest()) + 100;
      const [early, late] = [
        await signup(w, { deadline: BigInt(deadline) }),
        await signup(w, { deadline: BigInt(deadline) }),
      ];
      await c.at(deadline, () => early.send());
      await expect(c.at(deadline + 1, () => late.send()))
        .to.be.revertedWithCustomError(w.turnpike, "SignatureExpired")
        .withArgs(deadline);
    });

    it("refuses a signature over any other value, or by any other key", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { maxOverage: 1n });
      const other = await c.createPlan(w);
      for (const change of [
        { subscriber: w.stranger.address },
        { planId: other },
        { secretHash: c.freshSecretHash() },
        { maxOverage: 2n },
        { until: 2n ** 35n },
        { deadline: c.FOREVER - 1n },
      ]) {
        const sent = { ...s, ...change };
        await expect(w.turnpike.subscribe(...c.signupArgs(sent.subscriber, sent, sent)), Object.keys(change).join())
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(sent.subscriber);
      }
    });

    it("is signed over the terms that a wallet shows, each as the plan has it now", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w);
      const { subscriber, planId, secretHash, maxOverage, deadline } = s;
      const message = { subscriber, planId, secretHash, maxOverage, deadline };
      for (const shown of [
        { token: w.stranger.address },
        { payTo: w.stranger.address },
        { amount: c.PRICE - 1n },
        { interval: c.INTERVAL + 1 },
        { unit: "months" },
        { firstAmount: 0n },
        { firstInterval: 1n },
        { until: 2n ** 35n },
      ]) {
        const bytes = await c.sign(w, w.subscriber, "Subscribe", { ...message, ...shown });
        const by = { deadline, signature: bytes };
        await expect(w.turnpike.subscribe(...c.signupArgs(subscriber, s, by)), Object.keys(shown).join())
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(subscriber);
      }
      await expect(s.send()).to.emit(w.turnpike, "Subscribed");
    });

    it("A23 reverts when the plan is deprecated first, and renews when it is deprecated after", async () => {
      const w = await loadFixture(c.world);
      const [before, after] = [await signup(w), await signup(w)];
      await before.send();
      await w.turnpike.connect(w.provider).deprecatePlan(w.planId, ZeroHash);
      await expect(after.send()).to.be.revertedWithCustomError(w.turnpike, "PlanDeprecated").withArgs(w.planId);
      const due = await c.paidThroughOf(w, before.idHash);
      await expect(c.at(due, () => w.turnpike.renew(before.idHash))).to.emit(w.turnpike, "Renewed");
    });
  });
});
