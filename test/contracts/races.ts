// Attacks by order: who comes first in a block, and what is left for the other.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { ZeroAddress, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfDeployedCode } from "./support/deployed-code";
import { FAR, setNext, signup } from "./support/signups";

const WEEK = 7 * c.DAY;

describe("Races", () => {
  describe("for a signup with a voucher and a permit", () => {
    /** A subscriber without approval, and all that its relayer sends. */
    async function offered() {
      const w = await c.world();
      await w.token.connect(w.subscriber).approve(w.turnpike, 0n);
      const s = await signup(w, { until: FAR, voucher: { firstAmount: 7n, firstInterval: c.DAY } });
      const said = { planId: w.planId, secretHash: s.secretHash, maxOverage: 0n, until: FAR };
      const signature = await c.sign(w, w.subscriber, "Subscribe", s.message);
      const permit = await c.signPermit(w, w.subscriber, 7n);
      return { w, s, said, signature, permit };
    }

    it("T21 a stranger that submits the permit alone stops nothing", async () => {
      const { w, s, said, signature, permit } = await loadFixture(offered);
      const thief = w.token.connect(w.stranger);
      await thief[c.PERMIT_VRS](w.subscriber, w.turnpike, 7n, c.FOREVER, permit.v, permit.r, permit.s);
      const relayer = w.turnpike.connect(w.relayer);
      const sent = relayer.subscribe(
        ...c.signupArgs(w.subscriber, said, { voucher: s.voucher, permit, deadline: c.FOREVER, signature }),
      );
      await expect(sent).to.changeTokenBalances(w.token, [w.subscriber, w.treasury], [-7n, 7n]);
      expect((await w.lens.getSubscription(s.idHash)).until).to.equal(FAR);
    });

    it("T21 a stranger that submits the whole signup first makes it, and the relayer's copy charges nothing more", async () => {
      const { w, s, said, signature, permit } = await loadFixture(offered);
      const send = (by: typeof w.stranger) =>
        w.turnpike
          .connect(by)
          .subscribe(
            ...c.signupArgs(w.subscriber, said, { voucher: s.voucher, permit, deadline: c.FOREVER, signature }),
          );
      await expect(send(w.stranger)).to.changeTokenBalances(w.token, [w.subscriber, w.treasury], [-7n, 7n]);
      await expect(send(w.relayer)).to.be.revertedWithCustomError(w.turnpike, "IdHashUsed").withArgs(s.idHash);
    });

    it("T21 a stranger that leaves out the voucher or the end, or raises either, charges nothing", async () => {
      const { w, s, said, signature, permit } = await loadFixture(offered);
      await w.token.connect(w.subscriber).approve(w.turnpike, c.FOREVER);
      const thief = w.turnpike.connect(w.stranger);
      const refused = (sent: Promise<unknown>, signer = w.subscriber) =>
        expect(sent).to.be.revertedWithCustomError(w.turnpike, "InvalidSignature").withArgs(signer.address);
      const by = { permit, deadline: c.FOREVER, signature };
      const send = (signed: typeof said, changed: Partial<c.Voucher> = {}) =>
        thief.subscribe(
          ...c.signupArgs(w.subscriber, signed, { ...by, voucher: { ...c.present(s.voucher), ...changed } }),
        );
      await refused(thief.subscribe(...c.signupArgs(w.subscriber, said, by)));
      await refused(send({ ...said, until: 0n }));
      await refused(send({ ...said, until: FAR + 1n }));
      await refused(send({ ...said, maxOverage: 1n }));
      await refused(send(said, { firstAmount: 8n }), w.provider);
      await refused(send(said, { firstInterval: BigInt(c.DAY) - 1n }), w.provider);
      await expect(send(said, { signer: ZeroAddress }))
        .to.be.revertedWithCustomError(w.turnpike, "InvalidVoucher")
        .withArgs(w.planId, ZeroAddress);
      const bare = { planId: w.planId, secretHash: s.secretHash };
      await refused(thief.subscribe(...c.signupArgs(w.subscriber, bare, { deadline: c.FOREVER, signature })));
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.NONE);
    });
  });

  describe("for a plan and its payee", () => {
    it("T23 applying and accepting in one transaction take over no plan whose payee has moved", async () => {
      const base = await loadFixture(c.world);
      const w = { ...base, planId: await c.createPlan(base, { payTo: base.provider.address }) };
      const encode = w.turnpike.interface.encodeFunctionData.bind(w.turnpike.interface);
      await w.turnpike.connect(w.provider).proposePayTo(w.planId, w.relayer);
      await w.turnpike.connect(w.provider).offerPlan(w.planId, w.stranger);
      await time.increase(WEEK);
      const thief = w.turnpike.connect(w.stranger);
      const [accept, propose, apply] = [
        encode("acceptPlan", [w.planId]),
        encode("proposePayTo", [w.planId, w.relayer.address]),
        encode("applyPayTo", [w.planId]),
      ];
      await expect(thief.multicall([accept, apply])).to.be.revertedWithCustomError(w.turnpike, "NotProposed");
      await expect(thief.multicall([accept, propose, apply])).to.be.revertedWithCustomError(w.turnpike, "TooEarly");
      await expect(thief.multicall([apply, accept])).to.be.revertedWithCustomError(w.turnpike, "PayeeApart");
      expect((await w.lens.getPlan(w.planId)).terms.payTo).to.equal(w.provider.address);
    });

    it("T23 of a veto and an application in one block, the second reverts", async () => {
      const w = await loadFixture(c.world);
      const encode = w.turnpike.interface.encodeFunctionData.bind(w.turnpike.interface);
      const now = (await time.latest()) + 100;
      await c.at(now, () => w.turnpike.connect(w.provider).proposePayTo(w.planId, w.stranger));
      await time.setNextBlockTimestamp(now + WEEK);
      await ethers.provider.send("evm_setAutomine", [false]);
      const call = { to: w.turnpike, gasLimit: 200_000n };
      const veto = { ...call, data: encode("withdrawPayTo", [w.planId]), gasPrice: 10n ** 10n };
      const apply = { ...call, data: encode("applyPayTo", [w.planId]), gasPrice: 10n ** 9n * 5n };
      const sent = [await w.stranger.sendTransaction(apply), await w.treasury.sendTransaction(veto)];
      await ethers.provider.send("evm_mine");
      await ethers.provider.send("evm_setAutomine", [true]);
      const ends = await Promise.all(sent.map(({ hash }) => ethers.provider.getTransactionReceipt(hash)));
      expect(ends.map((end) => end?.status)).to.deep.equal([0, 1]);
      expect((await w.lens.getPlan(w.planId)).terms.payTo).to.equal(w.treasury.address);
    });

    it("T23 a change to a plan that was passed on and moved since is refused, and one scheduled before goes to the new payee", async () => {
      const w = await loadFixture(c.world);
      const target = await c.createPlan(w, { amount: 2n * c.PRICE, payTo: w.provider.address });
      const s = await c.subscribe(w);
      await setNext(w, s.idHash, 0n, target);
      await w.turnpike.connect(w.provider).offerPlan(target, w.relayer);
      await w.turnpike.connect(w.relayer).acceptPlan(target);
      await w.turnpike.connect(w.relayer).proposePayTo(target, w.stranger);
      await time.increase(WEEK);
      await w.turnpike.applyPayTo(target);
      const me = w.turnpike.connect(w.subscriber);
      await expect(me.changePlan(s.idHash, target, 0n, c.FOREVER, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "PlanMismatch")
        .withArgs(w.planId, target);
      // The old provider has no say over the record any more once the change has applied.
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash))).to.changeTokenBalances(
        w.token,
        [w.treasury, w.stranger],
        [0n, 2n * c.PRICE],
      );
      await expect(w.turnpike.connect(w.provider).cancel(s.idHash, true, c.NO_AUTH))
        .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
        .withArgs(s.idHash, w.provider.address);
    });

    it("T23 the subscriber drops a scheduled change whose payee is about to move", async () => {
      const w = await loadFixture(c.world);
      const target = await c.createPlan(w, { amount: 2n * c.PRICE });
      const s = await c.subscribe(w);
      await setNext(w, s.idHash, 0n, target);
      await w.turnpike.connect(w.provider).proposePayTo(target, w.stranger);
      await setNext(w, s.idHash, 0n, ZeroHash);
      await time.increase(WEEK);
      await w.turnpike.applyPayTo(target);
      await expect(c.at(s.paidThrough, () => w.turnpike.renew(s.idHash))).to.changeTokenBalances(
        w.token,
        [w.treasury, w.stranger],
        [c.PRICE, 0n],
      );
    });
  });

  describe("for the gas of a batch", () => {
    /** Records whose renewal costs the most: limited, in months, with a change to months of another day. */
    async function dearest() {
      const w = await c.world();
      const token = await ethers.deployContract("ThirstyToken");
      await token.mint(w.subscriber, 1_000n * c.PRICE);
      await token.connect(w.subscriber).approve(w.turnpike, c.FOREVER);
      const terms = { token: await token.getAddress(), months: true, interval: 1, grace: c.DAY };
      const [from, to] = [await c.createPlan(w, terms), await c.createPlan(w, { ...terms, interval: 2 })];
      const sound = await c.subscribe(w);
      const ids: string[] = [];
      let due = 0;
      for (let i = 0; i < 3; i += 1) {
        const s = await c.subscribe(w, { planId: from });
        await setNext(w, s.idHash, FAR, to);
        ids.push(s.idHash);
        due = s.paidThrough;
      }
      // Past grace the period starts on another day, which is logged.
      await time.increaseTo(due + 3 * c.DAY);
      await token.arm(true);
      return { w, token, ids, sound };
    }

    itOfDeployedCode(
      "A14 T24 the dearest renewal with the dearest token is never reported as failed for lack of gas",
      async () => {
        const { w, token, ids } = await loadFixture(dearest);
        const renew = (gasLimit: bigint) => w.turnpike.connect(w.relayer).renewBatch.staticCall(ids, { gasLimit });
        let [collected, refused] = [0, 0];
        // The way to the token's own measurement costs less than 5,000, most of it storage.
        await token.requireGas(295_000n);
        for (let gasLimit = 400_000n; gasLimit <= 2_400_000n; gasLimit += 4_999n) {
          const reasons = await renew(gasLimit).catch(() => undefined);
          if (reasons) expect(reasons, `at ${gasLimit}`).to.deep.equal(ids.map(() => "0x00000000"));
          if (reasons) collected += 1;
          else refused += 1;
        }
        expect(Math.min(collected, refused), "limits on either side").to.be.greaterThan(20);
        const sent = w.turnpike.renewBatch(ids, { gasLimit: 2_400_000n });
        await expect(sent).to.changeTokenBalance(token, w.treasury, 3n * c.PRICE);
      },
    );

    itOfDeployedCode(
      "A14 T24 one that burns all its gas, in the views that find the cause too, leaves the rest theirs",
      async () => {
        const { w, token, ids, sound } = await loadFixture(dearest);
        await token.requireGas(2n ** 64n);
        const batch = [ids[0] ?? "", sound.idHash, ids[1] ?? ""];
        const failed = c.reasonOf(w, "TransferFailed");
        let found = 0;
        for (let gasLimit = 400_000n; gasLimit <= 2_400_000n; gasLimit += 19_997n) {
          const reasons = await w.turnpike.renewBatch.staticCall(batch, { gasLimit }).catch(() => undefined);
          if (reasons) expect(reasons, `at ${gasLimit}`).to.deep.equal([failed, "0x00000000", failed]);
          if (reasons) found += 1;
        }
        expect(found).to.be.greaterThan(20);
      },
    );
  });
});
