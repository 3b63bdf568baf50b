// createPlan, setOperator, deprecatePlan.

import { expect } from "chai";
import { AbiCoder, id, keccak256, toUtf8Bytes, ZeroAddress, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

const UINT32_MAX = 2n ** 32n - 1n;

describe("Plans", () => {
  describe("createPlan", () => {
    it("stores the terms under an id that proves them", async () => {
      const w = await loadFixture(c.world);
      const terms = await c.termsOf(w);
      const salt = c.freshSalt();
      const metadata = '{"name":"Basic"}';
      const { chainId } = await ethers.provider.getNetwork();
      const turnpike = await w.turnpike.getAddress();
      const planId = keccak256(
        AbiCoder.defaultAbiCoder().encode(
          ["uint256", "address", "address", "tuple(address,uint96,uint32,bool,uint32,address)", "bytes32", "bytes32"],
          [chainId, turnpike, w.provider.address, Object.values(terms), salt, keccak256(toUtf8Bytes(metadata))],
        ),
      );

      await expect(w.turnpike.connect(w.provider).createPlan(terms, salt, metadata))
        .to.emit(w.turnpike, "PlanCreated")
        .withArgs(planId, w.provider.address, 2n, Object.values(terms), salt, metadata)
        .and.to.emit(w.turnpike, "OperatorSet")
        .withArgs(planId, w.provider.address, c.Right.ALL);

      const plan = await w.lens.getPlan(planId);
      expect(plan.planId).to.equal(planId);
      expect(plan.index).to.equal(2n);
      expect(plan.provider).to.equal(w.provider.address);
      expect([...plan.terms]).to.deep.equal([
        terms.token,
        c.PRICE,
        BigInt(c.INTERVAL),
        false,
        BigInt(c.GRACE),
        terms.payTo,
      ]);
      expect(plan.deprecated).to.equal(false);
      expect(plan.successor).to.equal(ZeroHash);
    });

    it("gives another id to another provider, salt or metadata, and refuses the same again", async () => {
      const w = await loadFixture(c.world);
      const terms = await c.termsOf(w);
      const salt = c.freshSalt();
      const provider = w.turnpike.connect(w.provider);
      const planId = await provider.createPlan.staticCall(terms, salt, "a");
      await provider.createPlan(terms, salt, "a");

      await expect(provider.createPlan(terms, salt, "a"))
        .to.be.revertedWithCustomError(w.turnpike, "PlanExists")
        .withArgs(planId);
      const others = [
        await w.turnpike.connect(w.stranger).createPlan.staticCall(terms, salt, "a"),
        await provider.createPlan.staticCall(terms, c.freshSalt(), "a"),
        await provider.createPlan.staticCall(terms, salt, "b"),
      ];
      expect(new Set([planId, ...others]).size).to.equal(4);
    });

    it("A21 refuses unsound terms and names the field", async () => {
      const w = await loadFixture(c.world);
      const turnpike = await w.turnpike.getAddress();
      const unsound: [Parameters<typeof c.termsOf>[1], string][] = [
        [{ token: w.stranger.address }, "token"],
        [{ token: ZeroAddress }, "token"],
        [{ token: turnpike }, "token"],
        [{ amount: 0n }, "amount"],
        [{ interval: 0n, grace: 0n }, "interval"],
        [{ interval: 100n, grace: 100n }, "grace"],
        [{ interval: 100n, grace: 101n }, "grace"],
        [{ payTo: ZeroAddress }, "payTo"],
        [{ payTo: turnpike }, "payTo"],
      ];
      for (const [overrides, field] of unsound) {
        await expect(w.turnpike.createPlan(await c.termsOf(w, overrides), ZeroHash, ""), field)
          .to.be.revertedWithCustomError(w.turnpike, "InvalidTerms")
          .withArgs(field);
      }
    });

    it("T15 refuses an NFT as a token, whose transferFrom would take an id for an amount", async () => {
      const w = await loadFixture(c.world);
      const nft = await ethers.deployContract("Collectible");
      await expect(w.turnpike.createPlan(await c.termsOf(w, { token: await nft.getAddress() }), ZeroHash, ""))
        .to.be.revertedWithCustomError(w.turnpike, "InvalidTerms")
        .withArgs("token");
    });

    it("T15 accepts a token that knows no ERC-165, or knows it wrongly", async () => {
      const w = await loadFixture(c.world);
      const boastful = await ethers.deployContract("BoastfulToken");
      for (const token of [w.token, boastful]) {
        const terms = await c.termsOf(w, { token: await token.getAddress() });
        await expect(w.turnpike.createPlan(terms, c.freshSalt(), "")).to.emit(w.turnpike, "PlanCreated");
      }
    });

    it("A21 takes the extremes: interval 1 without grace, and all fields at their maximum", async () => {
      const w = await loadFixture(c.world);
      const shortest = await c.createPlan(w, { interval: 1n, grace: 0n });
      const s = await c.subscribe(w, { planId: shortest });
      await expect(c.at(s.paidThrough + 1, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.EXPIRED);

      const longest = await c.createPlan(w, { amount: 1n, interval: UINT32_MAX, grace: UINT32_MAX - 1n });
      const long = await c.subscribe(w, { planId: longest });
      const dearest = await c.createPlan(w, { amount: 2n ** 96n - 1n });
      const { terms } = await w.lens.getPlan(dearest);
      expect(terms.amount).to.equal(2n ** 96n - 1n);
      expect(terms.payTo).to.equal(w.treasury.address);
      expect(await c.statusAt(w, long.idHash, long.paidThrough + Number(UINT32_MAX) - 2)).to.equal(c.Status.ACTIVE);
      await expect(c.at(long.paidThrough + Number(UINT32_MAX) - 1, () => w.turnpike.renew(long.idHash)))
        .to.emit(w.turnpike, "Renewed")
        .withArgs(long.idHash, BigInt(long.paidThrough) + UINT32_MAX);
    });
  });

  describe("setOperator", () => {
    it("lets the provider allow and remove operators, itself included", async () => {
      const w = await loadFixture(c.world);
      expect(await c.mayDebit(w, w.planId, w.provider)).to.equal(true);
      expect(await c.mayDebit(w, w.planId, w.operator)).to.equal(true);
      expect(await c.mayDebit(w, w.planId, w.stranger)).to.equal(false);
      expect(await c.mayDebit(w, ZeroHash, w.provider)).to.equal(false);

      for (const operator of [w.operator, w.provider]) {
        await expect(w.turnpike.connect(w.provider).setOperator(w.planId, operator, 0n))
          .to.emit(w.turnpike, "OperatorSet")
          .withArgs(w.planId, operator.address, 0n);
        expect(await c.mayDebit(w, w.planId, operator)).to.equal(false);
      }
    });

    it("sets exactly the bits that are given, and replaces those before", async () => {
      const w = await loadFixture(c.world);
      const provider = w.turnpike.connect(w.provider);
      expect(await w.lens.rightsOf(w.planId, w.provider)).to.equal(c.Right.ALL);
      for (let rights = 7n; rights >= 0n; rights -= 1n) {
        await expect(provider.setOperator(w.planId, w.relayer, rights))
          .to.emit(w.turnpike, "OperatorSet")
          .withArgs(w.planId, w.relayer.address, rights);
        expect(await w.lens.rightsOf(w.planId, w.relayer)).to.equal(rights);
        expect(await c.mayDebit(w, w.planId, w.relayer)).to.equal((rights & c.Right.DEBIT) !== 0n);
      }
    });

    it("refuses bits without a meaning", async () => {
      const w = await loadFixture(c.world);
      for (const rights of [8n, 9n, 128n, 255n]) {
        await expect(w.turnpike.connect(w.provider).setOperator(w.planId, w.relayer, rights))
          .to.be.revertedWithCustomError(w.turnpike, "InvalidTerms")
          .withArgs("rights");
      }
      expect(await w.lens.rightsOf(w.planId, w.relayer)).to.equal(0n);
    });

    it("lets the provider restrict itself and take its rights again", async () => {
      const w = await loadFixture(c.world);
      const provider = w.turnpike.connect(w.provider);
      await provider.setOperator(w.planId, w.provider, c.Right.RECEIPT);
      expect(await w.lens.rightsOf(w.planId, w.provider)).to.equal(c.Right.RECEIPT);
      await provider.setOperator(w.planId, w.provider, c.Right.ALL);
      expect(await c.mayDebit(w, w.planId, w.provider)).to.equal(true);
    });

    it("goes on working on a deprecated plan", async () => {
      const w = await loadFixture(c.world);
      const provider = w.turnpike.connect(w.provider);
      await provider.deprecatePlan(w.planId, ZeroHash);
      expect(await c.mayDebit(w, w.planId, w.operator)).to.equal(true);
      await provider.setOperator(w.planId, w.operator, 0n);
      await provider.setOperator(w.planId, w.relayer, c.Right.DEBIT);
      expect(await c.mayDebit(w, w.planId, w.operator)).to.equal(false);
      expect(await c.mayDebit(w, w.planId, w.relayer)).to.equal(true);
    });

    it("is for each plan apart", async () => {
      const w = await loadFixture(c.world);
      expect(await c.mayDebit(w, await c.createPlan(w), w.operator)).to.equal(false);
    });

    it("refuses everyone else, and an unknown plan", async () => {
      const w = await loadFixture(c.world);
      await expect(w.turnpike.connect(w.operator).setOperator(w.planId, w.stranger, c.Right.DEBIT))
        .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
        .withArgs(w.planId, w.operator.address);
      await expect(w.turnpike.connect(w.provider).setOperator(id("?"), w.stranger, c.Right.DEBIT))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
    });
  });

  describe("deprecatePlan", () => {
    it("closes the plan for good, with or without a successor", async () => {
      const w = await loadFixture(c.world);
      const next = await c.createPlan(w);
      await expect(w.turnpike.connect(w.provider).deprecatePlan(w.planId, next))
        .to.emit(w.turnpike, "PlanClosed")
        .withArgs(w.planId, next);
      const plan = await w.lens.getPlan(w.planId);
      expect([plan.deprecated, plan.successor, plan.provider]).to.deep.equal([true, next, w.provider.address]);
      expect([...plan.terms]).to.deep.equal([...(await w.lens.getPlan(next)).terms]);

      await w.turnpike.connect(w.provider).deprecatePlan(next, ZeroHash);
      const last = await w.lens.getPlan(next);
      expect([last.deprecated, last.successor]).to.deep.equal([true, ZeroHash]);
      await expect(w.turnpike.connect(w.provider).deprecatePlan(next, ZeroHash))
        .to.be.revertedWithCustomError(w.turnpike, "PlanDeprecated")
        .withArgs(next);
    });

    it("refuses a successor that is unknown, another provider's, in another token, deprecated or the plan itself", async () => {
      const w = await loadFixture(c.world);
      const token = await ethers.deployContract("TestToken", ["Other", "OTH", "1", 6]);
      const dear = await c.createPlan(w, { token: await token.getAddress() });
      const foreign = await c.createPlan(w, {}, w.stranger);
      const dead = await c.createPlan(w);
      await w.turnpike.connect(w.provider).deprecatePlan(dead, ZeroHash);
      for (const successor of [id("?"), foreign, dear, dead, w.planId]) {
        await expect(w.turnpike.connect(w.provider).deprecatePlan(w.planId, successor))
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSuccessor")
          .withArgs(w.planId, successor);
      }
      expect((await w.lens.getPlan(w.planId)).deprecated).to.equal(false);
    });

    it("refuses everyone but the provider, and an unknown plan", async () => {
      const w = await loadFixture(c.world);
      await expect(w.turnpike.connect(w.operator).deprecatePlan(w.planId, ZeroHash))
        .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
        .withArgs(w.planId, w.operator.address);
      await expect(w.turnpike.connect(w.provider).deprecatePlan(ZeroHash, ZeroHash))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(ZeroHash);
    });

    it("A23 A24 stops signups, moves and resumptions, while renewals and free resumptions go on at the same terms", async () => {
      const w = await loadFixture(c.world);
      const [running, paused, lapsed] = [await c.subscribe(w), await c.subscribe(w), await c.subscribe(w)];
      const other = await c.createPlan(w, { amount: 2n * c.PRICE });
      const mover = await c.subscribe(w, { planId: other });
      const me = w.turnpike.connect(w.subscriber);
      await me.pause(paused.idHash, c.NO_AUTH);
      await w.turnpike.connect(w.provider).deprecatePlan(w.planId, ZeroHash);
      const refusal = (act: Promise<unknown>) =>
        expect(act).to.be.revertedWithCustomError(w.turnpike, "PlanDeprecated").withArgs(w.planId);

      await refusal(me.subscribe(...c.signupArgs(w.subscriber, { planId: w.planId, secretHash: c.freshSecretHash() })));
      await refusal(me.changePlan(mover.idHash, w.planId, 0n, c.FOREVER, c.NO_AUTH));
      await me.resume(paused.idHash, 0n, c.NO_AUTH);
      await me.pause(paused.idHash, c.NO_AUTH);
      await expect(c.at(running.paidThrough, () => w.turnpike.renew(running.idHash))).to.changeTokenBalance(
        w.token,
        w.treasury,
        c.PRICE,
      );
      await refusal(c.at(paused.paidThrough, () => me.resume(paused.idHash, c.FOREVER, c.NO_AUTH)));
      await c.statusAt(w, lapsed.idHash, lapsed.paidThrough + c.INTERVAL);
      await refusal(me.resume(lapsed.idHash, c.FOREVER, c.NO_AUTH));
      // A leaked id can still be moved away from, and a subscription still ended.
      await me.rekey(running.idHash, c.freshSecretHash(), c.NO_AUTH);
      await me.cancel(paused.idHash, false, c.NO_AUTH);
    });
  });
});
