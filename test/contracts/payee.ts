// The payee and the provider of a plan, and how they move.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { type Addressable, id, ZeroAddress, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { signup } from "./support/signups";

const DELAY = 7 * c.DAY;

/** The roles of a theft: `provider` is the stolen key, `treasury` the payee, `stranger` the thief's account. */
async function standing() {
  const w = await c.world();
  const provider = w.turnpike.connect(w.provider);
  const payee = w.turnpike.connect(w.treasury);
  const me = w.turnpike.connect(w.subscriber);
  return { w, provider, payee, me };
}

/** Proposes at exactly `now`; the proposal can be applied DELAY later. */
async function propose(w: c.World, to: Addressable, by = w.provider) {
  const now = (await time.latest()) + 100;
  await c.at(now, () => w.turnpike.connect(by).proposePayTo(w.planId, to));
  return now + DELAY;
}

async function payToOf(w: c.World, planId = w.planId): Promise<string> {
  return (await w.lens.getPlan(planId)).terms.payTo;
}

describe("Plans", () => {
  describe("proposePayTo", () => {
    it("announces the payee and the second from which on it can be applied, and changes nothing yet", async () => {
      const { w, provider, payee } = await loadFixture(standing);
      for (const [by, as, to] of [
        [w.provider, provider, w.stranger],
        [w.treasury, payee, w.relayer],
      ] as const) {
        const now = (await time.latest()) + 100;
        await expect(c.at(now, () => as.proposePayTo(w.planId, to)))
          .to.emit(w.turnpike, "PayToProposed")
          .withArgs(w.planId, to.address, now + DELAY, by.address);
        const plan = await w.lens.getPlan(w.planId);
        expect([plan.terms.payTo, plan.firstPayTo, plan.proposedPayTo, plan.effectiveAt]).to.deep.equal([
          w.treasury.address,
          w.treasury.address,
          to.address,
          BigInt(now + DELAY),
        ]);
      }
    });

    it("replaces the proposal before it, and starts the seven days again", async () => {
      const { w } = await loadFixture(standing);
      const first = await propose(w, w.stranger);
      await time.increaseTo(first - 10);
      const second = await propose(w, w.relayer, w.treasury);
      await expect(c.at(second - 1, () => w.turnpike.applyPayTo(w.planId)))
        .to.be.revertedWithCustomError(w.turnpike, "TooEarly")
        .withArgs(w.planId, second);
      await c.at(second, () => w.turnpike.applyPayTo(w.planId));
      expect(await payToOf(w)).to.equal(w.relayer.address);
    });

    it("refuses everyone else, an unknown plan, the zero address and the contract itself", async () => {
      const { w, provider } = await loadFixture(standing);
      for (const caller of [w.operator, w.subscriber, w.stranger]) {
        await expect(w.turnpike.connect(caller).proposePayTo(w.planId, w.stranger))
          .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
          .withArgs(w.planId, caller.address);
      }
      await expect(provider.proposePayTo(id("?"), w.stranger))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
      for (const payTo of [ZeroAddress, await w.turnpike.getAddress()]) {
        await expect(provider.proposePayTo(w.planId, payTo))
          .to.be.revertedWithCustomError(w.turnpike, "InvalidTerms")
          .withArgs("payTo");
      }
    });
  });

  describe("proposePayTo > confirmed by the other one", () => {
    it("moves the payee at once, whichever of them proposed, and the first payee stays known", async () => {
      for (const first of ["provider", "treasury"] as const) {
        const { w } = await loadFixture(standing);
        const second = first === "provider" ? w.treasury : w.provider;
        await w.turnpike.connect(w[first]).proposePayTo(w.planId, w.stranger);
        const sent = w.turnpike.connect(second).proposePayTo(w.planId, w.stranger);
        await expect(sent).to.emit(w.turnpike, "PayToMoved").withArgs(w.planId, w.stranger.address);
        await expect(sent).to.not.emit(w.turnpike, "PayToProposed");
        const plan = await w.lens.getPlan(w.planId);
        expect([plan.terms.payTo, plan.firstPayTo, plan.proposedPayTo, plan.effectiveAt]).to.deep.equal([
          w.stranger.address,
          w.treasury.address,
          ZeroAddress,
          0n,
        ]);
        await expect(w.turnpike.applyPayTo(w.planId)).to.be.revertedWithCustomError(w.turnpike, "NotProposed");
      }
    });

    it("waits when the same one proposes it again, from then on", async () => {
      for (const by of ["provider", "treasury"] as const) {
        const { w } = await loadFixture(standing);
        await propose(w, w.stranger, w[by]);
        const later = await propose(w, w.stranger, w[by]);
        expect(await payToOf(w)).to.equal(w.treasury.address);
        await expect(c.at(later - 1, () => w.turnpike.applyPayTo(w.planId)))
          .to.be.revertedWithCustomError(w.turnpike, "TooEarly")
          .withArgs(w.planId, later);
      }
    });

    it("is for what is proposed now: not for another payee, nor for one that was replaced or withdrawn", async () => {
      const { w, provider, payee } = await loadFixture(standing);
      // A confirmation names the payee, so that a proposal which comes before it in the block is not confirmed.
      await provider.proposePayTo(w.planId, w.stranger);
      await provider.proposePayTo(w.planId, w.relayer);
      await payee.proposePayTo(w.planId, w.stranger);
      expect(await payToOf(w)).to.equal(w.treasury.address);
      await payee.withdrawPayTo(w.planId);
      await provider.proposePayTo(w.planId, w.stranger);
      expect(await payToOf(w)).to.equal(w.treasury.address);
      expect((await w.lens.getPlan(w.planId)).proposedPayTo).to.equal(w.stranger.address);
    });

    it("is not for one account that is both, which waits as it did", async () => {
      const { w, provider } = await loadFixture(standing);
      const planId = await c.createPlan(w, { payTo: w.provider.address });
      for (let again = 0; again < 3; again += 1) await provider.proposePayTo(planId, w.stranger);
      expect(await payToOf(w, planId)).to.equal(w.provider.address);
      await time.increase(DELAY);
      await w.turnpike.applyPayTo(planId);
      expect(await payToOf(w, planId)).to.equal(w.stranger.address);
    });
  });

  describe("withdrawPayTo", () => {
    it("is for the provider and the present payee, whichever of them proposed", async () => {
      const { w } = await loadFixture(standing);
      for (const by of [w.provider, w.treasury]) {
        for (const against of [w.provider, w.treasury]) {
          const effectiveAt = await propose(w, w.stranger, by);
          await expect(w.turnpike.connect(against).withdrawPayTo(w.planId))
            .to.emit(w.turnpike, "PayToProposed")
            .withArgs(w.planId, ZeroAddress, 0n, against.address);
          const plan = await w.lens.getPlan(w.planId);
          expect([plan.proposedPayTo, plan.effectiveAt]).to.deep.equal([ZeroAddress, 0n]);
          await expect(c.at(effectiveAt, () => w.turnpike.applyPayTo(w.planId)))
            .to.be.revertedWithCustomError(w.turnpike, "NotProposed")
            .withArgs(w.planId);
        }
      }
    });

    it("refuses the proposed payee, everyone else, an unknown plan, and when nothing is proposed", async () => {
      const { w, provider } = await loadFixture(standing);
      await expect(provider.withdrawPayTo(w.planId))
        .to.be.revertedWithCustomError(w.turnpike, "NotProposed")
        .withArgs(w.planId);
      await propose(w, w.stranger);
      for (const caller of [w.stranger, w.operator, w.subscriber]) {
        await expect(w.turnpike.connect(caller).withdrawPayTo(w.planId))
          .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
          .withArgs(w.planId, caller.address);
      }
      await expect(provider.withdrawPayTo(id("?")))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
    });
  });

  describe("applyPayTo", () => {
    it("moves every charge and debit from the second at which it is applied on, by anyone", async () => {
      const { w } = await loadFixture(standing);
      const s = await c.subscribe(w, { maxOverage: 100n });
      const operator = w.turnpike.connect(w.operator);
      const effectiveAt = await propose(w, w.stranger);
      for (const early of [effectiveAt - 2, effectiveAt - 1]) {
        await expect(c.at(early, () => w.turnpike.connect(w.relayer).applyPayTo(w.planId)))
          .to.be.revertedWithCustomError(w.turnpike, "TooEarly")
          .withArgs(w.planId, effectiveAt);
      }
      await expect(c.at(effectiveAt, () => w.turnpike.connect(w.relayer).applyPayTo(w.planId)))
        .to.emit(w.turnpike, "PayToMoved")
        .withArgs(w.planId, w.stranger.address);
      await expect(operator.debit(s.idHash, 7n, 0n)).to.changeTokenBalances(
        w.token,
        [w.treasury, w.stranger],
        [0n, 7n],
      );
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash))).to.changeTokenBalances(
        w.token,
        [w.treasury, w.stranger],
        [0n, c.PRICE],
      );
      const plan = await w.lens.getPlan(w.planId);
      expect([plan.terms.payTo, plan.firstPayTo, plan.proposedPayTo, plan.effectiveAt]).to.deep.equal([
        w.stranger.address,
        w.treasury.address,
        ZeroAddress,
        0n,
      ]);
    });

    it("keeps the old payee for as long as nobody applies it", async () => {
      const { w } = await loadFixture(standing);
      const effectiveAt = await propose(w, w.stranger);
      await time.increaseTo(effectiveAt + 100 * c.DAY);
      await expect(
        w.turnpike
          .connect(w.subscriber)
          .subscribe(...c.signupArgs(w.subscriber, { planId: w.planId, secretHash: c.freshSecretHash() })),
      ).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
    });

    it("applies once, and the first payee stays the one that the plan's id proves", async () => {
      const { w } = await loadFixture(standing);
      await c.at(await propose(w, w.stranger), () => w.turnpike.applyPayTo(w.planId));
      await expect(w.turnpike.applyPayTo(w.planId))
        .to.be.revertedWithCustomError(w.turnpike, "NotProposed")
        .withArgs(w.planId);
      // The old payee has no say any more, and the new one has.
      await expect(w.turnpike.connect(w.treasury).proposePayTo(w.planId, w.treasury))
        .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
        .withArgs(w.planId, w.treasury.address);
      await c.at(await propose(w, w.relayer, w.stranger), () => w.turnpike.applyPayTo(w.planId));
      const plan = await w.lens.getPlan(w.planId);
      expect([plan.terms.payTo, plan.firstPayTo]).to.deep.equal([w.relayer.address, w.treasury.address]);
    });

    it("leaves all other terms, the end of the plan and its rights as they were", async () => {
      const { w, provider } = await loadFixture(standing);
      const next = await c.createPlan(w);
      const monthly = await c.createPlan(w, { interval: 5n, months: true });
      for (const planId of [w.planId, monthly]) {
        await provider.deprecatePlan(planId, next);
        const before = await w.lens.getPlan(planId);
        await provider.proposePayTo(planId, w.stranger);
        await time.increase(DELAY);
        await w.turnpike.applyPayTo(planId);
        const after = await w.lens.getPlan(planId);
        const { interval, months, grace, token, amount } = before.terms;
        expect([...after.terms]).to.deep.equal([token, amount, interval, months, grace, w.stranger.address]);
        expect([after.deprecated, after.successor, after.provider]).to.deep.equal([true, next, w.provider.address]);
      }
      expect(await c.mayDebit(w, w.planId, w.operator)).to.equal(true);
    });

    it("refuses when nothing is proposed, and an unknown plan", async () => {
      const { w } = await loadFixture(standing);
      await expect(w.turnpike.applyPayTo(w.planId))
        .to.be.revertedWithCustomError(w.turnpike, "NotProposed")
        .withArgs(w.planId);
      await expect(w.turnpike.applyPayTo(id("?")))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
    });
  });

  describe("a stolen provider key", () => {
    it("T12 diverts nothing while the payee withdraws: each new proposal waits seven days again", async () => {
      const { w, provider, payee } = await loadFixture(standing);
      const s = await c.subscribe(w, { maxOverage: 100n });
      for (let week = 0; week < 3; week += 1) {
        const effectiveAt = await propose(w, w.stranger);
        await c.at(effectiveAt - 1, () => payee.withdrawPayTo(w.planId));
        await expect(c.at(effectiveAt, () => provider.applyPayTo(w.planId)))
          .to.be.revertedWithCustomError(w.turnpike, "NotProposed")
          .withArgs(w.planId);
      }
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash))).to.changeTokenBalance(
        w.token,
        w.stranger,
        0n,
      );
      expect(await payToOf(w)).to.equal(w.treasury.address);
    });

    it("T12 cannot pass the plan on while the payee is another account", async () => {
      const { w, provider } = await loadFixture(standing);
      await provider.offerPlan(w.planId, w.stranger);
      await expect(w.turnpike.connect(w.stranger).acceptPlan(w.planId))
        .to.be.revertedWithCustomError(w.turnpike, "PayeeApart")
        .withArgs(w.planId, w.treasury.address);
      expect((await w.lens.getPlan(w.planId)).provider).to.equal(w.provider.address);
    });

    it("T12 cannot make the payee's own proposal come sooner, nor replace its target at the old time", async () => {
      const { w } = await loadFixture(standing);
      const effectiveAt = await propose(w, w.relayer, w.treasury);
      const later = await propose(w, w.stranger, w.provider);
      await expect(c.at(effectiveAt, () => w.turnpike.connect(w.provider).applyPayTo(w.planId)))
        .to.be.revertedWithCustomError(w.turnpike, "TooEarly")
        .withArgs(w.planId, later);
    });

    it("T13 a renewal in the block before the move pays the old payee, and after it the new one", async () => {
      const { w } = await loadFixture(standing);
      const week = await c.createPlan(w, { interval: 7 * c.DAY, grace: c.DAY });
      const s = await c.subscribe(w, { planId: week });
      const now = s.paidThrough - DELAY;
      await c.at(now + 5, () => w.turnpike.connect(w.provider).proposePayTo(week, w.stranger));
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash))).to.changeTokenBalance(
        w.token,
        w.treasury,
        c.PRICE,
      );
      await c.at(now + 5 + DELAY, () => w.turnpike.applyPayTo(week));
      await expect(c.at(s.paidThrough + 7 * c.DAY, () => w.turnpike.renew(s.idHash))).to.changeTokenBalances(
        w.token,
        [w.treasury, w.stranger],
        [0n, c.PRICE],
      );
    });

    it("T13 a move and a renewal in one transaction charge once, for the new payee", async () => {
      const { w } = await loadFixture(standing);
      const s = await c.subscribe(w);
      await time.increaseTo(s.paidThrough - DELAY);
      await propose(w, w.stranger);
      await time.increaseTo(s.paidThrough + 200);
      const encode = w.turnpike.interface.encodeFunctionData.bind(w.turnpike.interface);
      const calls = [encode("applyPayTo", [w.planId]), encode("renew", [s.idHash])];
      await expect(w.turnpike.connect(w.relayer).multicall(calls)).to.changeTokenBalances(
        w.token,
        [w.subscriber, w.treasury, w.stranger],
        [-c.PRICE, 0n, c.PRICE],
      );
    });

    it("T14 a signup that was signed before the payee moved is invalid, in each form", async () => {
      const { w } = await loadFixture(standing);
      const effectiveAt = await propose(w, w.stranger);
      const plain = await signup(w);
      const offered = await signup(w, { voucher: { firstAmount: 0n } });
      const before = await Promise.all([plain, offered].map((s) => c.sign(w, w.subscriber, "Subscribe", s.message)));
      const old = { ...plain.message, secretHash: c.freshSecretHash() };
      const bare = await c.sign(w, w.subscriber, "Subscribe", old);
      await c.at(effectiveAt, () => w.turnpike.applyPayTo(w.planId));
      const refusal = (sent: Promise<unknown>) =>
        expect(sent).to.be.revertedWithCustomError(w.turnpike, "InvalidSignature").withArgs(w.subscriber.address);
      await refusal(plain.signed({}, before[0]));
      await refusal(offered.signed({}, before[1]));
      const by = w.turnpike.connect(w.relayer);
      await refusal(
        by.subscribe(
          ...c.signupArgs(
            w.subscriber,
            { planId: w.planId, secretHash: old.secretHash },
            { deadline: c.FOREVER, signature: bare },
          ),
        ),
      );
      await expect(plain.signed()).to.changeTokenBalance(w.token, w.stranger, c.PRICE);
    });

    it("T14 a signup that is brought in the block before the move pays the payee that was signed", async () => {
      const { w } = await loadFixture(standing);
      const effectiveAt = await propose(w, w.stranger);
      const s = await signup(w);
      await expect(c.at(effectiveAt - 1, () => s.signed())).to.changeTokenBalances(
        w.token,
        [w.treasury, w.stranger],
        [c.PRICE, 0n],
      );
    });

    it("T14 a plan change that was signed before its payee moved is invalid", async () => {
      const { w, provider } = await loadFixture(standing);
      const dearer = await c.createPlan(w, { amount: 2n * c.PRICE });
      const s = await c.subscribe(w);
      const fields = { newPlanId: dearer, maxOverage: 0n, maxCharge: c.FOREVER };
      const auth = await c.authFor(w, "ChangePlan", s.idHash, fields);
      const send = (by: typeof auth) => w.turnpike.changePlan(s.idHash, dearer, 0n, c.FOREVER, by);
      await provider.proposePayTo(dearer, w.stranger);
      await time.increase(DELAY);
      await w.turnpike.applyPayTo(dearer);
      await expect(send(auth))
        .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
        .withArgs(w.subscriber.address);
      const again = await c.authFor(w, "ChangePlan", s.idHash, fields);
      await expect(send(again)).to.emit(w.turnpike, "PlanChanged");
    });
  });

  describe("offerPlan and acceptPlan", () => {
    /** The plan's payee is its provider. */
    async function own() {
      const known = await standing();
      const planId = await c.createPlan(known.w, { payTo: known.w.provider.address });
      await known.provider.setOperator(planId, known.w.operator, c.Right.DEBIT);
      return { ...known, w: { ...known.w, planId } };
    }

    it("replaces the provider, who has all rights then; the old one has none, others keep theirs", async () => {
      const { w, provider } = await loadFixture(own);
      const s = await c.subscribe(w, { maxOverage: 100n });
      await expect(provider.offerPlan(w.planId, w.relayer))
        .to.emit(w.turnpike, "PlanOffered")
        .withArgs(w.planId, w.relayer.address);
      expect((await w.lens.getPlan(w.planId)).nextProvider).to.equal(w.relayer.address);
      const next = w.turnpike.connect(w.relayer);
      const receipt = c.present(await (await next.acceptPlan(w.planId)).wait());
      const events = receipt.logs.map((log) => c.present(w.turnpike.interface.parseLog(log)));
      expect(events.map((event) => [event.name, ...event.args.toArray()])).to.deep.equal([
        ["PlanTransferred", w.planId, w.relayer.address],
        ["PayToMoved", w.planId, w.relayer.address],
        ["OperatorSet", w.planId, w.provider.address, 0n],
        ["OperatorSet", w.planId, w.relayer.address, c.Right.ALL],
      ]);
      const plan = await w.lens.getPlan(w.planId);
      expect([plan.provider, plan.nextProvider, plan.terms.payTo]).to.deep.equal([
        w.relayer.address,
        ZeroAddress,
        w.relayer.address,
      ]);
      expect(plan.firstPayTo).to.equal(w.provider.address);
      expect(await w.lens.rightsOf(w.planId, w.provider)).to.equal(0n);
      expect(await w.lens.rightsOf(w.planId, w.relayer)).to.equal(c.Right.ALL);
      expect(await w.lens.rightsOf(w.planId, w.operator)).to.equal(c.Right.DEBIT);

      for (const act of [
        () => provider.setOperator(w.planId, w.provider, c.Right.ALL),
        () => provider.deprecatePlan(w.planId, ZeroHash),
        () => provider.proposePayTo(w.planId, w.stranger),
        () => provider.offerPlan(w.planId, w.provider),
        () => provider.acceptPlan(w.planId),
      ]) {
        await expect(act())
          .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
          .withArgs(w.planId, w.provider.address);
      }
      await expect(provider.cancel(s.idHash, true, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
        .withArgs(s.idHash, w.provider.address);
      await expect(next.debit(s.idHash, 1n, 0n)).to.changeTokenBalance(w.token, w.relayer, 1n);
      await next.cancel(s.idHash, true, c.NO_AUTH);
      await next.deprecatePlan(w.planId, ZeroHash);
    });

    it("makes an ordinary account's plan a contract wallet's, whose signer alone decides from then on", async () => {
      const { w, provider } = await loadFixture(own);
      const s = await c.subscribe(w);
      const wallet = await ethers.deployContract("TestWallet", [w.stranger.address]);
      const run = (method: string, args: unknown[]) =>
        wallet.connect(w.stranger).getFunction("execute")(
          w.turnpike,
          w.turnpike.interface.encodeFunctionData(method as "acceptPlan", args as never),
        );
      await provider.offerPlan(w.planId, wallet);
      await run("acceptPlan", [w.planId]);
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash))).to.changeTokenBalances(
        w.token,
        [w.provider, wallet],
        [0n, c.PRICE],
      );
      for (const act of [
        () => provider.proposePayTo(w.planId, w.provider),
        () => provider.withdrawPayTo(w.planId),
        () => provider.stopPlan(w.planId),
      ]) {
        await expect(act()).to.be.revertedWithCustomError(w.turnpike, "NotProvider");
      }
      await run("stopPlan", [w.planId]);
    });

    it("drops a proposed payee, and a payee that moved on keeps the plan from being handed over", async () => {
      const { w, provider } = await loadFixture(own);
      await provider.offerPlan(w.planId, w.relayer);
      await provider.proposePayTo(w.planId, w.stranger);
      await w.turnpike.connect(w.relayer).acceptPlan(w.planId);
      const plan = await w.lens.getPlan(w.planId);
      expect([plan.terms.payTo, plan.proposedPayTo]).to.deep.equal([w.relayer.address, ZeroAddress]);

      const apart = await c.createPlan(w, { payTo: w.provider.address });
      await provider.offerPlan(apart, w.relayer);
      await provider.proposePayTo(apart, w.treasury);
      await time.increase(DELAY);
      await w.turnpike.applyPayTo(apart);
      const accept = () => w.turnpike.connect(w.relayer).acceptPlan(apart);
      await expect(accept())
        .to.be.revertedWithCustomError(w.turnpike, "PayeeApart")
        .withArgs(apart, w.treasury.address);
      // Both agree that the provider is its payee again: the offer is still open.
      await w.turnpike.connect(w.treasury).proposePayTo(apart, w.provider);
      await provider.proposePayTo(apart, w.provider);
      await expect(accept()).to.emit(w.turnpike, "PlanTransferred").withArgs(apart, w.relayer.address);
    });

    it("keeps the successor that the old provider named, and the metadata's id", async () => {
      const { w, provider } = await loadFixture(own);
      const successor = await c.createPlan(w);
      await provider.deprecatePlan(w.planId, successor);
      await provider.offerPlan(w.planId, w.relayer);
      await w.turnpike.connect(w.relayer).acceptPlan(w.planId);
      const plan = await w.lens.getPlan(w.planId);
      expect([plan.planId, plan.deprecated, plan.successor]).to.deep.equal([w.planId, true, successor]);
    });

    it("is for the account that was offered last, once; a withdrawn offer is for nobody", async () => {
      const { w, provider } = await loadFixture(own);
      const refusal = (caller: typeof w.stranger) =>
        expect(w.turnpike.connect(caller).acceptPlan(w.planId))
          .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
          .withArgs(w.planId, caller.address);
      for (const caller of [w.stranger, w.provider, w.treasury]) await refusal(caller);
      await provider.offerPlan(w.planId, w.stranger);
      await provider.offerPlan(w.planId, w.relayer);
      await refusal(w.stranger);
      await provider.offerPlan(w.planId, ZeroAddress);
      await refusal(w.relayer);
      await provider.offerPlan(w.planId, w.relayer);
      await w.turnpike.connect(w.relayer).acceptPlan(w.planId);
      await refusal(w.relayer);
      await expect(w.turnpike.acceptPlan(id("?")))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
    });

    it("leaves a provider that accepts its own offer with all rights", async () => {
      const { w, provider } = await loadFixture(own);
      await provider.setOperator(w.planId, w.provider, 0n);
      await provider.offerPlan(w.planId, w.provider);
      await provider.acceptPlan(w.planId);
      expect(await w.lens.rightsOf(w.planId, w.provider)).to.equal(c.Right.ALL);
    });

    it("refuses an offer by everyone but the provider, the payee included, and of an unknown plan", async () => {
      const { w, provider } = await loadFixture(own);
      for (const caller of [w.treasury, w.operator, w.stranger]) {
        await expect(w.turnpike.connect(caller).offerPlan(w.planId, caller))
          .to.be.revertedWithCustomError(w.turnpike, "NotProvider")
          .withArgs(w.planId, caller.address);
      }
      await expect(provider.offerPlan(id("?"), w.relayer))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(id("?"));
    });

    it("separates the plan from the others of the old provider: no change leads from or to it", async () => {
      const { w, provider, me } = await loadFixture(own);
      const other = await c.createPlan(w, { amount: 2n * c.PRICE });
      const s = await c.subscribe(w);
      await provider.offerPlan(w.planId, w.relayer);
      await w.turnpike.connect(w.relayer).acceptPlan(w.planId);
      await expect(me.changePlan(s.idHash, other, 0n, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "PlanMismatch")
        .withArgs(w.planId, other);
      await expect(w.turnpike.connect(w.relayer).deprecatePlan(w.planId, other))
        .to.be.revertedWithCustomError(w.turnpike, "InvalidSuccessor")
        .withArgs(w.planId, other);
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash))).to.changeTokenBalance(
        w.token,
        w.relayer,
        c.PRICE,
      );
    });
  });
});
