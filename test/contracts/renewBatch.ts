// renewBatch: isolation, whatever the items, the tokens and the gas.

import { expect } from "chai";
import { id } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfDeployedCode } from "./support/deployed-code";

const OK = "0x00000000";

async function twenty() {
  const w = await c.world();
  const all: c.Subscription[] = [];
  for (let i = 0; i < 20; i += 1) all.push(await c.subscribe(w));
  const last = c.present(all.at(-1));
  return { w, all, due: last.paidThrough, ids: all.map((s) => s.idHash) };
}

describe("Renewals", () => {
  describe("renewBatch", () => {
    it("L16 does for each what renew does, and reports success as zero", async () => {
      const { w, all, ids, due } = await loadFixture(twenty);
      await c.statusAt(w, c.present(ids[0]), due);
      expect(await w.turnpike.renewBatch.staticCall(ids)).to.deep.equal(ids.map(() => OK));
      const sent = await w.turnpike.connect(w.stranger).renewBatch(ids);
      await expect(sent).to.changeTokenBalance(w.token, w.treasury, 20n * c.PRICE);
      await expect(sent).to.not.emit(w.turnpike, "RenewalFailed");
      for (const s of all) expect(await c.paidThroughOf(w, s.idHash)).to.equal(s.paidThrough + c.INTERVAL);
    });

    it("takes an empty list", async () => {
      const { w } = await loadFixture(twenty);
      expect(await w.turnpike.renewBatch.staticCall([])).to.deep.equal([]);
      await w.turnpike.renewBatch([]);
    });

    it("A13 L17 skips a failing item at any position, with its reason", async () => {
      for (const position of [0, 9, 19]) {
        const { w, ids, due } = await loadFixture(twenty);
        await w.turnpike.connect(w.subscriber).cancel(c.present(ids[position]), false, c.NO_AUTH);
        const before = await c.recordOf(w, c.present(ids[position]));
        const sent = c.at(due, () => w.turnpike.renewBatch(ids));
        const reason = c.reasonOf(w, "SubscriptionNotActive");
        await expect(sent).to.emit(w.turnpike, "RenewalFailed").withArgs(ids[position], reason);
        await expect(sent).to.changeTokenBalance(w.token, w.treasury, 19n * c.PRICE);
        expect(await c.recordOf(w, c.present(ids[position]))).to.deep.equal(before);
      }
    });

    it("reports every cause by the selector of its error", async () => {
      const { w, ids, due } = await loadFixture(twenty);
      await w.token.mint(w.stranger, 3n * c.PRICE);
      await w.token.connect(w.stranger).approve(w.turnpike, 3n * c.PRICE);
      const [poor, unapproved] = [await c.subscribe(w, { subscriber: w.stranger }), await c.subscribe(w)];
      await w.token.connect(w.stranger).transfer(w.relayer, 2n * c.PRICE);
      const ending = c.present(ids[0]);
      await w.turnpike.connect(w.subscriber).cancel(ending, true, c.NO_AUTH);
      await w.turnpike.connect(w.subscriber).pause(c.present(ids[1]), c.NO_AUTH);
      await w.token.connect(w.subscriber).approve(w.turnpike, c.PRICE);
      await c.statusAt(w, c.present(ids[0]), Math.max(due, poor.paidThrough, unapproved.paidThrough));
      expect(
        await w.turnpike.renewBatch.staticCall([
          c.present(ids[2]),
          c.present(ids[2]),
          c.present(ids[3]),
          poor.idHash,
          ending,
          c.present(ids[1]),
          id("?"),
        ]),
      ).to.deep.equal([
        OK,
        c.reasonOf(w, "RenewalNotDue"),
        c.reasonOf(w, "InsufficientApproval"),
        c.reasonOf(w, "InsufficientFunds"),
        c.reasonOf(w, "SubscriptionNotActive"),
        c.reasonOf(w, "SubscriptionNotActive"),
        c.reasonOf(w, "SubscriptionNotActive"),
      ]);
    });

    it("A15 charges a duplicate once, in a batch and across batches of one block", async () => {
      const { w, ids, due } = await loadFixture(twenty);
      const thrice = [c.present(ids[0]), c.present(ids[1]), c.present(ids[0]), c.present(ids[0])];
      await c.statusAt(w, c.present(ids[0]), due);
      const before = await w.token.balanceOf(w.treasury);
      await ethers.provider.send("evm_setAutomine", [false]);
      const data = w.turnpike.interface.encodeFunctionData("renewBatch", [thrice]);
      await w.relayer.sendTransaction({ to: w.turnpike, data, gasLimit: 3_000_000n });
      await w.stranger.sendTransaction({ to: w.turnpike, data, gasLimit: 3_000_000n });
      await ethers.provider.send("evm_mine");
      await ethers.provider.send("evm_setAutomine", [true]);
      expect((await w.token.balanceOf(w.treasury)) - before).to.equal(2n * c.PRICE);
    });

    it("lets nobody else into its frames, also not through multicall", async () => {
      const { w, ids } = await loadFixture(twenty);
      const frame = w.turnpike.interface.encodeFunctionData("renewInner", [c.present(ids[0])]);
      for (const act of [
        () => w.turnpike.connect(w.subscriber).renewInner(c.present(ids[0])),
        () => w.turnpike.connect(w.subscriber).multicall([frame]),
      ]) {
        await expect(act()).to.be.revertedWithCustomError(w.turnpike, "OnlySelf").withArgs(w.subscriber.address);
      }
    });

    itOfDeployedCode(
      "A14 A40 records no false failure under any gas limit: all are collected, or the whole call reverts",
      async () => {
        const { w, ids, due } = await loadFixture(twenty);
        await c.statusAt(w, c.present(ids[0]), due);
        const renew = (gasLimit: bigint) => w.turnpike.connect(w.relayer).renewBatch.staticCall(ids, { gasLimit });
        const outcomes = { collected: 0, refused: 0 };
        for (let gasLimit = 100_000n; gasLimit <= 1_500_000n; gasLimit += 9_973n) {
          const reasons = await renew(gasLimit).catch(() => undefined);
          if (reasons) expect(reasons, `at ${gasLimit}`).to.deep.equal(ids.map(() => OK));
          outcomes[reasons ? "collected" : "refused"] += 1;
        }
        expect(outcomes.collected, "some limits suffice").to.be.greaterThan(10);
        expect(outcomes.refused, "some do not").to.be.greaterThan(10);
        await expect(w.turnpike.connect(w.relayer).renewBatch(ids, { gasLimit: 600_000n }))
          .to.be.revertedWithCustomError(w.turnpike, "InsufficientGas")
          .withArgs(
            (available: bigint) => available < 467_142n,
            (required: bigint) => required === 467_142n,
          );
        for (const idHash of ids) expect((await c.recordOf(w, idHash)).paidThrough).to.be.lessThanOrEqual(BigInt(due));
      },
    );
  });
});
