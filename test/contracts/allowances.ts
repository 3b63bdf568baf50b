// setMaxOverage, debit, debitBatch.

import { expect } from "chai";
import { ZeroHash } from "ethers";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfDeployedCode } from "./support/deployed-code";

const OK = "0x00000000";
const CAP = 1_000n;

async function metered() {
  const w = await c.world();
  const s = await c.subscribe(w, { maxOverage: CAP });
  return { w, s, me: w.turnpike.connect(w.subscriber), operator: w.turnpike.connect(w.operator) };
}

describe("Allowances", () => {
  describe("setMaxOverage", () => {
    it("raises and lowers the cap of this cycle; what is spent stays spent", async () => {
      const { w, s, me, operator } = await loadFixture(metered);
      await operator.debit(s.idHash, 600n, 0n);
      await expect(me.setMaxOverage(s.idHash, 2_000n, c.NO_AUTH))
        .to.emit(w.turnpike, "MaxOverageSet")
        .withArgs(s.idHash, 2_000n);
      expect((await w.lens.getAllowance(s.idHash)).remaining).to.equal(1_400n);
      expect((await c.recordOf(w, s.idHash)).version).to.equal(1n);
      await me.setMaxOverage(s.idHash, 700n, c.NO_AUTH);
      expect((await w.lens.getAllowance(s.idHash)).remaining).to.equal(100n);
    });

    it("A26 leaves nothing below what is spent, and only the difference when it is raised again", async () => {
      const { w, s, me, operator } = await loadFixture(metered);
      await operator.debit(s.idHash, 600n, 0n);
      for (const cap of [599n, 600n, 0n]) {
        await me.setMaxOverage(s.idHash, cap, c.NO_AUTH);
        await expect(operator.debit(s.idHash, 1n, 1n))
          .to.be.revertedWithCustomError(w.turnpike, "AllowanceExhausted")
          .withArgs(s.idHash, 1n, 0n);
      }
      await me.setMaxOverage(s.idHash, 601n, c.NO_AUTH);
      await operator.debit(s.idHash, 1n, 1n);
    });

    it("A26 takes signed caps in the order of their versions only", async () => {
      const { w, s } = await loadFixture(metered);
      const first = await c.authFor(w, "SetMaxOverage", s.idHash, { cap: 1n }, { version: 0n });
      const second = await c.authFor(w, "SetMaxOverage", s.idHash, { cap: 2n }, { version: 1n });
      await expect(w.turnpike.setMaxOverage(s.idHash, 2n, second))
        .to.be.revertedWithCustomError(w.turnpike, "StaleVersion")
        .withArgs(s.idHash, 1n, 0n);
      await w.turnpike.setMaxOverage(s.idHash, 1n, first);
      await w.turnpike.setMaxOverage(s.idHash, 2n, second);
      await expect(w.turnpike.setMaxOverage(s.idHash, 1n, first)).to.be.revertedWithCustomError(
        w.turnpike,
        "StaleVersion",
      );
      expect((await w.lens.getAllowance(s.idHash)).cap).to.equal(2n);
    });

    it("grants an allowance where there was none, up to its field", async () => {
      const { w, me, operator } = await loadFixture(metered);
      const s = await c.subscribe(w);
      await me.setMaxOverage(s.idHash, 0n, c.NO_AUTH);
      expect([...(await w.lens.getAllowance(s.idHash))]).to.deep.equal([0n, 0n, 0n, 0n, 0n]);
      await me.setMaxOverage(s.idHash, c.MAX_CAP, c.NO_AUTH);
      await expect(me.setMaxOverage(s.idHash, c.MAX_CAP + 1n, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "CapTooLarge")
        .withArgs(c.MAX_CAP + 1n, c.MAX_CAP);
      await operator.debit(s.idHash, 5n, 0n);
      const record = await c.recordOf(w, s.idHash);
      expect([record.cap, record.spent, record.cycle, record.debits]).to.deep.equal([
        c.MAX_CAP,
        5n,
        BigInt(s.paidThrough),
        1n,
      ]);
    });

    it("works in every status but the last, for the subscriber alone", async () => {
      const { w, s, me } = await loadFixture(metered);
      for (const caller of [w.operator, w.provider]) {
        await expect(w.turnpike.connect(caller).setMaxOverage(s.idHash, 5n, c.NO_AUTH))
          .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
          .withArgs(s.idHash, caller.address);
      }
      for (const after of [0, c.GRACE, c.INTERVAL]) {
        await c.at(s.paidThrough + after, () => me.setMaxOverage(s.idHash, 5n, c.NO_AUTH));
      }
      await me.cancel(s.idHash, false, c.NO_AUTH);
      await expect(me.setMaxOverage(s.idHash, 5n, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.CANCELLED);
    });
  });

  describe("debit", () => {
    it("moves the amount at once, up to the cap and not a unit more", async () => {
      const { w, s, operator } = await loadFixture(metered);
      const sent = operator.debit(s.idHash, CAP - 1n, 0n);
      await expect(sent)
        .to.emit(w.turnpike, "Debited")
        .withArgs(s.idHash, CAP - 1n, 0n);
      await expect(sent).to.changeTokenBalances(w.token, [w.subscriber, w.treasury], [1n - CAP, CAP - 1n]);
      await expect(operator.debit(s.idHash, 2n, 1n))
        .to.be.revertedWithCustomError(w.turnpike, "AllowanceExhausted")
        .withArgs(s.idHash, 2n, 1n);
      await operator.debit(s.idHash, 1n, 1n);
      await expect(operator.debit(s.idHash, 1n, 2n))
        .to.be.revertedWithCustomError(w.turnpike, "AllowanceExhausted")
        .withArgs(s.idHash, 1n, 0n);
      expect([...(await w.lens.getAllowance(s.idHash))]).to.deep.equal([CAP, CAP, 0n, BigInt(s.paidThrough), 2n]);
    });

    it("cannot be made to overflow", async () => {
      const { w, s, me, operator } = await loadFixture(metered);
      await me.setMaxOverage(s.idHash, c.MAX_CAP, c.NO_AUTH);
      await operator.debit(s.idHash, 5n, 0n);
      for (const amount of [c.MAX_CAP - 4n, 2n ** 88n, 2n ** 128n, c.FOREVER]) {
        await expect(operator.debit(s.idHash, amount, 1n))
          .to.be.revertedWithCustomError(w.turnpike, "AllowanceExhausted")
          .withArgs(s.idHash, amount, c.MAX_CAP - 5n);
      }
      await w.token.mint(w.subscriber, c.MAX_CAP);
      await operator.debit(s.idHash, c.MAX_CAP - 5n, 1n);
      const record = await c.recordOf(w, s.idHash);
      expect([record.cap, record.spent, record.cycle, record.debits]).to.deep.equal([
        c.MAX_CAP,
        c.MAX_CAP,
        BigInt(s.paidThrough),
        2n,
      ]);
    });

    it("A28 L10 takes each index once, so that a retry after a lost receipt does no harm", async () => {
      const { w, s, operator } = await loadFixture(metered);
      await operator.debit(s.idHash, 1n, 0n);
      for (const index of [0n, 2n, c.FOREVER]) {
        await expect(operator.debit(s.idHash, 1n, index))
          .to.be.revertedWithCustomError(w.turnpike, "StaleDebit")
          .withArgs(s.idHash, index, 1n);
      }
      await operator.debit(s.idHash, 1n, 1n);
    });

    it("A29 is for operators of the plan: no stranger, no other provider, no removed operator", async () => {
      const { w, s } = await loadFixture(metered);
      await c.createPlan(w, {}, w.stranger);
      const refusal = (caller: typeof w.stranger) =>
        expect(w.turnpike.connect(caller).debit(s.idHash, 1n, 0n))
          .to.be.revertedWithCustomError(w.turnpike, "NotOperator")
          .withArgs(w.planId, caller.address);
      await refusal(w.stranger);
      await refusal(w.subscriber);
      await refusal(w.treasury);
      await w.turnpike.connect(w.provider).debit(s.idHash, 1n, 0n);
      for (const operator of [w.operator, w.provider]) {
        await w.turnpike.connect(w.provider).setOperator(w.planId, operator, 0n);
        await refusal(operator);
      }
      expect((await w.lens.getAllowance(s.idHash)).spent).to.equal(1n);
    });

    it("A27 L9 counts against the old cycle until it is renewed, also in grace, and from zero after", async () => {
      const { w, s, operator } = await loadFixture(metered);
      await c.at(s.paidThrough - 1, () => operator.debit(s.idHash, 400n, 0n));
      await c.at(s.paidThrough, () => operator.debit(s.idHash, 400n, 1n));
      await expect(c.at(s.paidThrough + c.GRACE - 1, () => operator.debit(s.idHash, 201n, 2n)))
        .to.be.revertedWithCustomError(w.turnpike, "AllowanceExhausted")
        .withArgs(s.idHash, 201n, 200n);
      await w.turnpike.renew(s.idHash);
      expect([...(await w.lens.getAllowance(s.idHash))]).to.deep.equal([
        CAP,
        0n,
        CAP,
        BigInt(s.paidThrough), // the stored figure still belongs to the old cycle
        2n,
      ]);
      await operator.debit(s.idHash, CAP, 2n);
      expect((await w.lens.getAllowance(s.idHash)).remaining).to.equal(0n);
    });

    it("needs ACTIVE", async () => {
      const { w, s, me, operator } = await loadFixture(metered);
      const refusal = (sent: Promise<unknown>, idHash: string, status: bigint) =>
        expect(sent).to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive").withArgs(idHash, status);
      await refusal(operator.debit(ZeroHash, 1n, 0n), ZeroHash, c.Status.NONE);
      await me.pause(s.idHash, c.NO_AUTH);
      await refusal(operator.debit(s.idHash, 1n, 0n), s.idHash, c.Status.PAUSED);
      await me.resume(s.idHash, 0n, c.NO_AUTH);
      await c.at(s.paidThrough + c.GRACE - 1, () => operator.debit(s.idHash, 1n, 0n));
      const debit = () => operator.debit(s.idHash, 1n, 1n);
      await refusal(c.at(s.paidThrough + c.GRACE, debit), s.idHash, c.Status.PAST_DUE);
      await refusal(c.at(s.paidThrough + c.INTERVAL, debit), s.idHash, c.Status.EXPIRED);
    });

    it("refuses nothing as an amount, and anything without an allowance", async () => {
      const { w, s, operator } = await loadFixture(metered);
      await expect(operator.debit(s.idHash, 0n, 0n)).to.be.revertedWithCustomError(w.turnpike, "ZeroAmount");
      const bare = await c.subscribe(w);
      await expect(operator.debit(bare.idHash, 1n, 0n))
        .to.be.revertedWithCustomError(w.turnpike, "AllowanceExhausted")
        .withArgs(bare.idHash, 1n, 0n);
    });

    it("refuses in the documented order: status, operator, amount, index, cap", async () => {
      const { w, s, me, operator } = await loadFixture(metered);
      await operator.debit(s.idHash, 1n, 0n);
      const stranger = w.turnpike.connect(w.stranger);
      const refusal = (sent: Promise<unknown>, error: string, ...args: unknown[]) =>
        expect(sent)
          .to.be.revertedWithCustomError(w.turnpike, error)
          .withArgs(...args);
      // A retried debit that is also above what is left is stale: it has succeeded already.
      await refusal(operator.debit(s.idHash, CAP, 0n), "StaleDebit", s.idHash, 0n, 1n);
      await refusal(operator.debit(s.idHash, CAP, 1n), "AllowanceExhausted", s.idHash, CAP, CAP - 1n);
      await refusal(operator.debit(s.idHash, 0n, 0n), "ZeroAmount");
      await refusal(stranger.debit(s.idHash, 0n, 0n), "NotOperator", w.planId, w.stranger.address);
      await me.pause(s.idHash, c.NO_AUTH);
      await refusal(stranger.debit(s.idHash, 0n, 0n), "SubscriptionNotActive", s.idHash, c.Status.PAUSED);
    });

    it("needs the DEBIT right, whatever other rights an account has, also on a deprecated plan", async () => {
      const { w, s } = await loadFixture(metered);
      const provider = w.turnpike.connect(w.provider);
      const relayer = w.turnpike.connect(w.relayer);
      let index = 0n;
      for (const deprecated of [false, true]) {
        if (deprecated) await provider.deprecatePlan(w.planId, ZeroHash);
        for (const rights of [c.Right.VOUCHER, c.Right.RECEIPT, c.Right.VOUCHER | c.Right.RECEIPT, 0n]) {
          await provider.setOperator(w.planId, w.relayer, rights);
          await expect(relayer.debit(s.idHash, 1n, index))
            .to.be.revertedWithCustomError(w.turnpike, "NotOperator")
            .withArgs(w.planId, w.relayer.address);
          expect(await c.mayDebit(w, w.planId, w.relayer)).to.equal(false);
        }
        await provider.setOperator(w.planId, w.relayer, c.Right.DEBIT);
        expect(await c.mayDebit(w, w.planId, w.relayer)).to.equal(true);
        await relayer.debit(s.idHash, 1n, index);
        index += 1n;
      }
    });

    it("leaves all as it was when the token refuses", async () => {
      const { w, s, operator } = await loadFixture(metered);
      await w.token.connect(w.subscriber).approve(w.turnpike, 4n);
      const before = await c.recordOf(w, s.idHash);
      await expect(operator.debit(s.idHash, 5n, 0n))
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval")
        .withArgs(w.subscriber.address, await w.token.getAddress(), 5n, 4n);
      expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
    });
  });

  describe("debitBatch", () => {
    it("A13 L16 takes what can be taken, in order, and reports the reason for the rest", async () => {
      const { w, s, operator } = await loadFixture(metered);
      const other = await c.subscribe(w, { maxOverage: CAP });
      const debits = [
        { idHash: s.idHash, amount: 400n, index: 0n },
        { idHash: s.idHash, amount: 601n, index: 1n },
        { idHash: ZeroHash, amount: 1n, index: 0n },
        { idHash: s.idHash, amount: 600n, index: 0n },
        { idHash: s.idHash, amount: 600n, index: 1n },
        { idHash: s.idHash, amount: 0n, index: 2n },
        { idHash: other.idHash, amount: CAP, index: 0n },
      ];
      const reasons = [
        OK,
        c.reasonOf(w, "AllowanceExhausted"),
        c.reasonOf(w, "SubscriptionNotActive"),
        c.reasonOf(w, "StaleDebit"),
        OK,
        c.reasonOf(w, "ZeroAmount"),
        OK,
      ];
      expect(await operator.debitBatch.staticCall(debits)).to.deep.equal(reasons);
      const sent = operator.debitBatch(debits);
      await expect(sent).to.changeTokenBalance(w.token, w.treasury, 2n * CAP);
      await expect(sent).to.emit(w.turnpike, "Debited").withArgs(other.idHash, CAP, 0n);
      await expect(sent)
        .to.emit(w.turnpike, "DebitFailed")
        .withArgs(s.idHash, 601n, 1n, c.reasonOf(w, "AllowanceExhausted"));
      expect((await c.recordOf(w, s.idHash)).debits).to.equal(2n);
    });

    it("A29 judges its caller, not itself", async () => {
      const { w, s } = await loadFixture(metered);
      const debits = [{ idHash: s.idHash, amount: 1n, index: 0n }];
      const stranger = w.turnpike.connect(w.stranger);
      expect(await stranger.debitBatch.staticCall(debits)).to.deep.equal([c.reasonOf(w, "NotOperator")]);
      const call = w.turnpike.interface.encodeFunctionData("debitBatch", [debits]);
      await expect(stranger.multicall([call])).to.changeTokenBalance(w.token, w.treasury, 0n);
      await expect(w.turnpike.connect(w.operator).multicall([call])).to.changeTokenBalance(w.token, w.treasury, 1n);
    });

    it("lets nobody else into its frames", async () => {
      const { w, s, operator } = await loadFixture(metered);
      const frame = w.turnpike.interface.encodeFunctionData("debitInner", [s.idHash, 1n, 0n, w.operator.address]);
      for (const act of [() => operator.debitInner(s.idHash, 1n, 0n, w.operator), () => operator.multicall([frame])]) {
        await expect(act()).to.be.revertedWithCustomError(w.turnpike, "OnlySelf").withArgs(w.operator.address);
      }
    });

    itOfDeployedCode("A14 A40 records no false failure under any gas limit", async () => {
      const { w, s, operator } = await loadFixture(metered);
      const debits = Array.from({ length: 10 }, (_, i) => ({ idHash: s.idHash, amount: 1n, index: BigInt(i) }));
      const outcomes = new Set<string>();
      for (let gasLimit = 60_000n; gasLimit <= 1_000_000n; gasLimit += 9_973n) {
        const reasons = await operator.debitBatch.staticCall(debits, { gasLimit }).catch(() => undefined);
        if (reasons) expect(reasons, `at ${gasLimit}`).to.deep.equal(debits.map(() => OK));
        outcomes.add(reasons ? "debited" : "refused");
      }
      expect([...outcomes].sort()).to.deep.equal(["debited", "refused"]);
      await expect(operator.debitBatch(debits, { gasLimit: 400_000n })).to.be.revertedWithCustomError(
        w.turnpike,
        "InsufficientGas",
      );
    });
  });
});
