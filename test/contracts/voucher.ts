// Vouchers: a first period that the provider offers to one subscriber for one secret.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { type ContractTransactionResponse, dataSlice, ZeroAddress, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import type { TestWallet } from "../../sdk/src/chain/generated";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { signup } from "./support/signups";

const WEEK = 7 * c.DAY;

async function eventsOf(w: c.World, sent: ContractTransactionResponse) {
  const receipt = c.present(await sent.wait());
  const own = receipt.logs.map((log) => w.turnpike.interface.parseLog(log)).filter((log) => log !== null);
  return own.map((log) => [log.name, ...log.args.toArray()]);
}

function invalidVoucher(w: c.World, sent: Promise<unknown>, signer: string, planId = w.planId) {
  return expect(sent).to.be.revertedWithCustomError(w.turnpike, "InvalidVoucher").withArgs(planId, signer);
}

function invalidSignature(w: c.World, sent: Promise<unknown>, signer: string) {
  return expect(sent).to.be.revertedWithCustomError(w.turnpike, "InvalidSignature").withArgs(signer);
}

describe("Subscriptions", () => {
  describe("subscribe > a voucher", () => {
    for (const form of ["direct", "signed"] as const) {
      it(`charges the first amount for the first seconds, then the price for whole periods (${form})`, async () => {
        const w = await loadFixture(c.world);
        const s = await signup(w, { maxOverage: 9n, voucher: { firstAmount: 3n, firstInterval: WEEK } });
        const now = (await time.latest()) + 100;
        const sent = await c.at(now, () => s[form]());
        expect(await eventsOf(w, sent)).to.deep.equal([
          ["VoucherUsed", s.idHash, w.provider.address, 3n],
          ["Subscribed", s.idHash, w.planId, w.subscriber.address, 9n, BigInt(now + WEEK)],
        ]);
        await expect(sent).to.changeTokenBalances(w.token, [w.subscriber, w.treasury], [-3n, 3n]);
        expect((await w.lens.getSubscription(s.idHash)).intro).to.equal(true);

        await expect(c.at(now + WEEK - 1, () => w.turnpike.renew(s.idHash)))
          .to.be.revertedWithCustomError(w.turnpike, "RenewalNotDue")
          .withArgs(s.idHash, now + WEEK);
        const renewed = await c.at(now + WEEK, () => w.turnpike.renew(s.idHash));
        await expect(renewed).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
        const view = await w.lens.getSubscription(s.idHash);
        expect([view.intro, view.paidThrough]).to.deep.equal([false, BigInt(now + WEEK + c.INTERVAL)]);
      });
    }

    it("is one regular period when it names no seconds", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: 0n } });
      const now = (await time.latest()) + 100;
      await c.at(now, () => s.direct());
      const view = await w.lens.getSubscription(s.idHash);
      expect([view.paidThrough, view.intro]).to.deep.equal([BigInt(now + c.INTERVAL), true]);
    });

    it("moves nothing at 0, from a subscriber without funds or approval, and charges when the first period ends", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { subscriber: w.stranger, voucher: { firstAmount: 0n, firstInterval: WEEK } });
      const sent = await s.signed();
      await expect(sent).to.not.emit(w.token, "Transfer");
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.ACTIVE);
      const due = await c.paidThroughOf(w, s.idHash);
      await expect(c.at(due, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientFunds")
        .withArgs(w.stranger.address, await w.token.getAddress(), c.PRICE, 0n);
      await w.token.mint(w.stranger, c.PRICE);
      await w.token.connect(w.stranger).approve(w.turnpike, c.PRICE);
      await expect(w.turnpike.renew(s.idHash)).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
    });

    it("serves for the first seconds and the grace of the plan, and is judged by the plan after", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: 0n, firstInterval: WEEK } });
      await s.direct();
      const p = await c.paidThroughOf(w, s.idHash);
      for (const [after, status] of [
        [-1, c.Status.ACTIVE],
        [c.GRACE - 1, c.Status.ACTIVE],
        [c.GRACE, c.Status.PAST_DUE],
        [c.INTERVAL - 1, c.Status.PAST_DUE],
        [c.INTERVAL, c.Status.EXPIRED],
      ] as const) {
        await c.statusAt(w, s.idHash, p + after);
        const blockTag = await ethers.provider.getBlockNumber();
        expect(await w.turnpike.statusOf(s.idHash, { blockTag }), `${after} s after`).to.equal(status);
      }
    });

    it("costs the price at most", async () => {
      const w = await loadFixture(c.world);
      for (const form of ["direct", "signed"] as const) {
        const most = await signup(w, { voucher: { firstAmount: c.PRICE, firstInterval: WEEK } });
        await expect(most[form]()).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
        const above = await signup(w, { voucher: { firstAmount: c.PRICE + 1n } });
        await invalidVoucher(w, above[form](), w.provider.address);
      }
    });

    it("lasts 366 days at most", async () => {
      const w = await loadFixture(c.world);
      const longest = 366 * c.DAY;
      for (const form of ["direct", "signed"] as const) {
        const longer = await signup(w, { voucher: { firstAmount: 0n, firstInterval: longest + 1 } });
        await expect(longer[form]())
          .to.be.revertedWithCustomError(w.turnpike, "FirstIntervalTooLong")
          .withArgs(longest + 1, longest);
        const year = await signup(w, { voucher: { firstAmount: 0n, firstInterval: longest } });
        const now = (await time.latest()) + 100;
        await c.at(now, () => year[form]());
        expect(await c.paidThroughOf(w, year.idHash)).to.equal(now + longest);
      }
    });

    it("gives no credit for its period, which a change of plan pays in full", async () => {
      const w = await loadFixture(c.world);
      const dearer = await c.createPlan(w, { amount: 3n * c.PRICE });
      for (const [firstAmount, firstInterval] of [
        [c.PRICE - 1n, 0],
        [c.PRICE, WEEK],
      ] as const) {
        const s = await signup(w, { voucher: { firstAmount, firstInterval } });
        await s.direct();
        expect([...(await w.turnpike.quoteChange(s.idHash, dearer))]).to.deep.equal([3n * c.PRICE, 0n]);
        const me = w.turnpike.connect(w.subscriber);
        await expect(me.changePlan(s.idHash, dearer, 0n, c.FOREVER, c.NO_AUTH)).to.changeTokenBalance(
          w.token,
          w.treasury,
          3n * c.PRICE,
        );
        expect((await w.lens.getSubscription(s.idHash)).intro).to.equal(false);
      }
    });

    it("holds until its deadline, inclusive, which is not the signup's", async () => {
      const w = await loadFixture(c.world);
      const deadline = (await time.latest()) + 1_000;
      const [inTime, late] = [
        await signup(w, { voucher: { deadline: BigInt(deadline) } }),
        await signup(w, { voucher: { deadline: BigInt(deadline) } }),
      ];
      await c.at(deadline, () => inTime.signed());
      await expect(c.at(deadline + 1, () => late.signed()))
        .to.be.revertedWithCustomError(w.turnpike, "SignatureExpired")
        .withArgs(deadline);
    });

    it("is signed by the provider or an account with the VOUCHER right, and by no other", async () => {
      const w = await loadFixture(c.world);
      const provider = w.turnpike.connect(w.provider);
      for (const [signer, rights, accepted] of [
        [w.stranger, 0n, false],
        [w.operator, c.Right.DEBIT, false],
        [w.relayer, c.Right.RECEIPT | c.Right.DEBIT, false],
        [w.relayer, c.Right.VOUCHER, true],
        [w.relayer, c.Right.ALL, true],
        [w.treasury, 0n, false],
      ] as const) {
        await provider.setOperator(w.planId, signer, rights);
        const s = await signup(w, { voucher: { signer } });
        if (accepted) await expect(s.direct()).to.emit(w.turnpike, "VoucherUsed").withArgs(s.idHash, signer, 1n);
        else await invalidVoucher(w, s.direct(), signer.address);
      }
      // The right counts on its own plan alone.
      const other = await c.createPlan(w, {}, w.stranger);
      const foreign = await signup(w, { planId: other });
      await foreign.direct();
      const mixed = await signup(w, { planId: other, voucher: { signer: w.provider } });
      await invalidVoucher(w, mixed.direct(), w.provider.address, other);
    });

    it("covers every value that it names", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: 3n, firstInterval: WEEK } });
      const address = w.provider.address;
      await invalidSignature(w, s.direct({ firstAmount: 2n }), address);
      await invalidSignature(w, s.direct({ firstInterval: WEEK + 1 }), address);
      await invalidSignature(w, s.direct({ deadline: c.FOREVER - 1n }), address);
      await invalidSignature(w, s.direct({ signature: "0x" }), address);
      await w.turnpike.connect(w.provider).setOperator(w.planId, w.relayer, c.Right.VOUCHER);
      await invalidSignature(w, s.direct({ signer: w.relayer.address }), w.relayer.address);
      await s.direct();
    });

    it("covers the plan's token", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { signed: { token: w.stranger.address } } });
      for (const form of ["direct", "signed"] as const) await invalidSignature(w, s[form](), w.provider.address);
    });

    it("is part of what the subscriber signs: without it, or with a dearer one, the signature is worth nothing", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: 3n, firstInterval: WEEK } });
      const of = w.subscriber.address;
      await invalidSignature(w, s.signed({ signer: ZeroAddress }), of);
      for (const changed of [{ firstAmount: 4n }, { firstInterval: WEEK - 1 }]) {
        const dearer = await signup(w, {
          secretHash: s.secretHash,
          voucher: { firstAmount: 3n, firstInterval: WEEK, ...changed },
        });
        await invalidSignature(w, s.signed(dearer.voucher), of);
      }
      // Nor does the message without a voucher serve with one.
      const plain = await signup(w);
      const offered = await signup(w, { secretHash: plain.secretHash, voucher: { firstAmount: 3n } });
      await invalidSignature(w, plain.signed(offered.voucher), of);
      const bare = await c.sign(w, w.subscriber, "Subscribe", s.message);
      const args = c.signupArgs(of, s, { deadline: c.FOREVER, signature: bare });
      await invalidSignature(w, w.turnpike.subscribe(...args), of);
    });

    it("goes together with a permit, in the subscriber's own call and in a relayer's", async () => {
      const w = await loadFixture(c.world);
      await w.token.mint(w.stranger, c.PRICE);
      for (const form of ["direct", "signed"] as const) {
        const s = await signup(w, { subscriber: w.stranger, voucher: { firstAmount: 7n } });
        const said = { planId: w.planId, secretHash: s.secretHash, maxOverage: 0n, until: 0n };
        const signature = form === "direct" ? "0x" : await c.sign(w, w.stranger, "Subscribe", s.message);
        const by = w.turnpike.connect(form === "direct" ? w.stranger : w.relayer);
        const permit = await c.signPermit(w, w.stranger, 7n);
        await expect(
          by.subscribe(
            ...c.signupArgs(w.stranger, said, { voucher: s.voucher, permit, deadline: c.FOREVER, signature }),
          ),
        ).to.changeTokenBalance(w.token, w.treasury, 7n);
        expect(await w.token.allowance(w.stranger, w.turnpike)).to.equal(0n);
      }
    });

    it("goes together with a permit over nothing, which revokes the approval when nothing is to be charged", async () => {
      const w = await loadFixture(c.world);
      for (const form of ["direct", "signed"] as const) {
        await w.token.connect(w.subscriber).approve(w.turnpike, c.FOREVER);
        const s = await signup(w, { voucher: { firstAmount: 0n } });
        const said = { planId: w.planId, secretHash: s.secretHash, maxOverage: 0n, until: 0n };
        const signature = form === "direct" ? "0x" : await c.sign(w, w.subscriber, "Subscribe", s.message);
        const by = w.turnpike.connect(form === "direct" ? w.subscriber : w.relayer);
        const permit = await c.signPermit(w, w.subscriber, 0n);
        await by.subscribe(
          ...c.signupArgs(w.subscriber, said, { voucher: s.voucher, permit, deadline: c.FOREVER, signature }),
        );
        expect(await w.token.allowance(w.subscriber, w.turnpike)).to.equal(0n);
      }
    });

    it("is checked on a plan that is open and known", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: {} });
      await w.turnpike.connect(w.provider).deprecatePlan(w.planId, ZeroHash);
      await expect(s.direct()).to.be.revertedWithCustomError(w.turnpike, "PlanDeprecated").withArgs(w.planId);
      const unknown = ethers.id("?");
      const names = { planId: unknown, secretHash: s.secretHash, maxOverage: 0n, until: 0n };
      const me = w.turnpike.connect(w.subscriber);
      await expect(me.subscribe(...c.signupArgs(w.subscriber, names, { voucher: s.voucher })))
        .to.be.revertedWithCustomError(w.turnpike, "UnknownPlan")
        .withArgs(unknown);
    });
  });

  describe("subscribe > attacks on vouchers", () => {
    it("T1 a voucher is no good on another chain, for another contract or under another name", async () => {
      const w = await loadFixture(c.world);
      const other = await ethers.deployContract("Turnpike");
      for (const domain of [
        { chainId: 1n },
        { verifyingContract: await other.getAddress() },
        { name: "Turnstile" },
        { version: "2" },
      ]) {
        const s = await signup(w, { voucher: { domain } });
        for (const form of ["direct", "signed"] as const) await invalidSignature(w, s[form](), w.provider.address);
      }
    });

    it("T1 the same terms have another plan id on another contract, which no voucher names", async () => {
      const w = await loadFixture(c.world);
      const twin = await ethers.deployContract("Turnpike");
      const [terms, salt] = [await c.termsOf(w), c.freshSalt()];
      const ids = await Promise.all(
        [w.turnpike, twin].map((turnpike) => turnpike.connect(w.provider).createPlan.staticCall(terms, salt, "{}")),
      );
      expect(ids[0]).to.not.equal(ids[1]);
    });

    it("T19 a voucher for what the plan has is refused: a signup without one is the same message, and gives credit", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: c.PRICE } });
      const { subscriber, planId, secretHash, maxOverage } = s.message;
      const message = { subscriber, planId, secretHash, maxOverage, deadline: c.FOREVER };
      const signature = await c.sign(w, w.subscriber, "Subscribe", message);
      await invalidVoucher(w, s.signed({}, signature), w.provider.address);
      await invalidVoucher(w, s.direct(), w.provider.address);
      const args = c.signupArgs(subscriber, message, { deadline: c.FOREVER, signature });
      await w.turnpike.connect(w.relayer).subscribe(...args);
      expect((await w.lens.getSubscription(s.idHash)).intro).to.equal(false);
    });

    it("T19 a voucher that spells out the plan's own period is one for what the plan has, too", async () => {
      const w = await loadFixture(c.world);
      const own = await signup(w, { voucher: { firstAmount: c.PRICE, firstInterval: c.INTERVAL } });
      for (const form of ["direct", "signed"] as const) await invalidVoucher(w, own[form](), w.provider.address);
      const cheaper = await signup(w, { voucher: { firstAmount: c.PRICE - 1n, firstInterval: c.INTERVAL } });
      await expect(cheaper.direct()).to.emit(w.turnpike, "VoucherUsed");
      // A month has no length in seconds: one of its interval's digits is another period.
      const planId = await c.createPlan(w, { months: true, interval: 12, grace: c.DAY });
      const short = await signup(w, { planId, voucher: { firstAmount: c.PRICE, firstInterval: 12 } });
      await expect(short.direct()).to.emit(w.turnpike, "VoucherUsed");
    });

    it("T2 bytes that are no voucher or permit are refused, also from the subscriber", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: 1n } });
      const [from, said, voucher, , deadline, signature] = c.signupArgs(w.subscriber, s, { voucher: s.voucher });
      const me = w.turnpike.connect(w.subscriber);
      for (const bad of ["0x00", dataSlice(voucher, 0, 32), dataSlice(voucher, 0, 224)]) {
        await expect(me.subscribe(from, said, bad, "0x", deadline, signature)).to.be.reverted;
        await expect(me.subscribe(from, said, "0x", bad, deadline, signature)).to.be.reverted;
      }
      await expect(me.subscribe(from, said, voucher, "0x", deadline, signature)).to.emit(w.turnpike, "VoucherUsed");
    });

    it("T2 a voucher serves no other subscriber, plan or secret, in either form", async () => {
      const w = await loadFixture(c.world);
      await w.token.mint(w.stranger, c.PRICE);
      await w.token.connect(w.stranger).approve(w.turnpike, c.PRICE);
      const mine = await signup(w, { voucher: { firstAmount: 0n, firstInterval: WEEK } });
      const other = await c.createPlan(w);
      const stolen = [
        await signup(w, { subscriber: w.stranger, secretHash: mine.secretHash, voucher: { firstAmount: 0n } }),
        await signup(w, { voucher: { firstAmount: 0n } }),
        await signup(w, { planId: other, secretHash: mine.secretHash, voucher: { firstAmount: 0n } }),
      ];
      for (const s of stolen) {
        await invalidSignature(w, s.direct(mine.voucher), w.provider.address);
        expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.NONE);
      }
      await mine.direct();
    });

    it("T2 a voucher's signer brings no signup without the payer's signature", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: 0n } });
      const said = { planId: w.planId, secretHash: s.secretHash, maxOverage: 0n, until: 0n };
      for (const by of [w.provider, w.treasury, w.relayer, w.stranger]) {
        for (const signature of ["0x", c.present(s.voucher).signature]) {
          const sent = w.turnpike
            .connect(by)
            .subscribe(...c.signupArgs(w.subscriber, said, { voucher: s.voucher, deadline: c.FOREVER, signature }));
          await invalidSignature(w, sent, w.subscriber.address);
        }
      }
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.NONE);
    });

    it("T2 a voucher seen in the mempool is worth nothing to another account that brings it first", async () => {
      const w = await loadFixture(c.world);
      const mine = await signup(w, { voucher: { firstAmount: 0n } });
      const said = { planId: w.planId, secretHash: mine.secretHash, maxOverage: 0n, until: 0n };
      const thief = w.turnpike.connect(w.stranger);
      const send = (as: string) =>
        thief.subscribe(...c.signupArgs(as, said, { voucher: mine.voucher, deadline: c.FOREVER, signature: "0x" }));
      await invalidSignature(w, send(w.stranger.address), w.provider.address);
      await invalidSignature(w, send(w.subscriber.address), w.subscriber.address);
      await expect(mine.direct()).to.emit(w.turnpike, "VoucherUsed");
    });

    it("T3 a voucher is used once: not again while it runs, after the end, or with other limits", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: 0n, firstInterval: WEEK } });
      await s.direct();
      const refusal = (sent: Promise<unknown>) =>
        expect(sent).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(s.idHash);
      await refusal(s.direct());
      await refusal(s.signed());
      const wider = await signup(w, { secretHash: s.secretHash, maxOverage: 5n, until: 2n ** 35n });
      await refusal(wider.direct(s.voucher));
      await w.turnpike.connect(w.subscriber).cancel(s.idHash, false, c.NO_AUTH);
      await refusal(s.direct());
    });

    it("T3 a voucher for a secret that was voided is worth nothing", async () => {
      const w = await loadFixture(c.world);
      const s = await signup(w, { voucher: { firstAmount: 0n } });
      await w.turnpike.connect(w.subscriber).void(w.subscriber, s.secretHash, 0n, "0x");
      for (const form of ["direct", "signed"] as const) {
        await expect(s[form]()).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(s.idHash);
      }
    });

    it("T4 rekey frees no voucher: neither the old secret's nor one for the secret it moves to", async () => {
      const w = await loadFixture(c.world);
      const me = w.turnpike.connect(w.subscriber);
      const s = await signup(w, { voucher: { firstAmount: 0n, firstInterval: WEEK } });
      const next = await signup(w, { voucher: { firstAmount: 0n, firstInterval: WEEK } });
      await s.direct();
      const p = await c.paidThroughOf(w, s.idHash);
      await me.rekey(s.idHash, next.secretHash, c.NO_AUTH);
      for (const used of [s, next]) {
        await expect(used.direct()).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(used.idHash);
      }
      // The record is the same introduction: as long, without credit, and charged in full after it.
      const view = await w.lens.getSubscription(next.idHash);
      expect([view.paidThrough, view.intro]).to.deep.equal([BigInt(p), true]);
      await expect(c.at(p, () => w.turnpike.renew(next.idHash))).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
    });

    it("T5 a revoked signer's vouchers are void, and so are the provider's after it gave its right or its plan away", async () => {
      const base = await loadFixture(c.world);
      const w = { ...base, planId: await c.createPlan(base, { payTo: base.provider.address }) };
      const provider = w.turnpike.connect(w.provider);
      await provider.setOperator(w.planId, w.relayer, c.Right.VOUCHER);
      const issued = await signup(w, { voucher: { signer: w.relayer } });
      await provider.setOperator(w.planId, w.relayer, c.Right.DEBIT | c.Right.RECEIPT);
      for (const form of ["direct", "signed"] as const) await invalidVoucher(w, issued[form](), w.relayer.address);

      const own = await signup(w, { voucher: {} });
      await provider.setOperator(w.planId, w.provider, c.Right.DEBIT);
      await invalidVoucher(w, own.direct(), w.provider.address);
      await provider.setOperator(w.planId, w.provider, c.Right.ALL);
      await provider.offerPlan(w.planId, w.stranger);
      await w.turnpike.connect(w.stranger).acceptPlan(w.planId);
      await invalidVoucher(w, own.direct(), w.provider.address);
      const renewed = await signup(w, { voucher: { signer: w.stranger } });
      await expect(renewed.direct()).to.emit(w.turnpike, "VoucherUsed");
    });

    it("T6 a signer with code that burns its gas or answers in a megabyte costs no more than its share", async () => {
      const w = await loadFixture(c.world);
      for (const name of ["BurnerWallet", "BombWallet"]) {
        const wallet = (await ethers.deployContract(name, [w.stranger.address])) as unknown as TestWallet;
        await w.turnpike.connect(w.provider).setOperator(w.planId, wallet, c.Right.VOUCHER);
        const signer = await wallet.getAddress();
        const s = await signup(w, { voucher: {} });
        const said = { planId: w.planId, secretHash: s.secretHash, maxOverage: 0n, until: 0n };
        const voucher = { ...c.present(s.voucher), signer };
        const me = w.turnpike.connect(w.subscriber);
        const sent = me.subscribe(...c.signupArgs(w.subscriber, said, { voucher }), { gasLimit: 3_000_000n });
        await invalidSignature(w, sent, signer);
        const block = c.present(await ethers.provider.getBlock("latest"));
        expect(block.gasUsed, name).to.be.lessThan(620_000n);
        // The subscriber signs up without it, at the price.
        await expect(
          me.subscribe(...c.signupArgs(w.subscriber, { planId: w.planId, secretHash: s.secretHash })),
        ).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
      }
    });

    it("T6 a signer with code issues vouchers by ERC-1271, and stops when it answers otherwise", async () => {
      const w = await loadFixture(c.world);
      const wallet = await ethers.deployContract("FickleWallet", [w.stranger.address]);
      await w.turnpike.connect(w.provider).setOperator(w.planId, wallet, c.Right.VOUCHER);
      const signer = await wallet.getAddress();
      const [first, second] = [await signup(w, { voucher: {} }), await signup(w, { voucher: {} })];
      await wallet.answer(true);
      await expect(first.direct({ signer })).to.emit(w.turnpike, "VoucherUsed").withArgs(first.idHash, signer, 1n);
      await wallet.answer(false);
      await invalidSignature(w, second.direct({ signer }), signer);
    });
  });
});
