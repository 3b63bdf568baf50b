// Tokens that misbehave: what a renewal makes of each, alone and as one item among sound ones.

import { expect } from "chai";
import type { Addressable } from "ethers";
import { ethers } from "hardhat";
import type { FaultyToken } from "../../sdk/src/chain/generated";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

const OK = "0x00000000";

/** A subscription that is paid in the faulty token, sound as yet, and falls due with a sound neighbour. */
async function withToken(name: string) {
  const w = await c.world();
  const token = (await ethers.deployContract(name)) as unknown as FaultyToken;
  await token.mint(w.subscriber, 100n * c.PRICE);
  await token.connect(w.subscriber).approve(w.turnpike, c.FOREVER);
  const planId = await c.createPlan(w, { token: await token.getAddress() });
  await w.turnpike.connect(w.provider).setOperator(planId, w.operator, c.Right.DEBIT);
  const neighbour = await c.subscribe(w);
  const s = await c.subscribe(w, { planId, maxOverage: 100n });
  return { w, token, planId, s, neighbour, due: s.paidThrough };
}

async function balances(token: FaultyToken, ...holders: Addressable[]): Promise<bigint[]> {
  return Promise.all(holders.map((holder) => token.balanceOf(holder)));
}

describe("Hostile tokens", () => {
  it("A10 a token that returns nothing works", async () => {
    const { w, token, s, due } = await withToken("NothingToken");
    await token.arm(true);
    await expect(c.at(due, () => w.turnpike.renew(s.idHash))).to.changeTokenBalance(token, w.treasury, c.PRICE);
    await w.turnpike.connect(w.operator).debit(s.idHash, 1n, 0n);
  });

  for (const name of [
    "FalseToken",
    "MovesThenFalseToken",
    "TwoToken",
    "WordyToken",
    "ReturnBombToken",
    "RevertBombToken",
    "ForgingToken",
    "GasBurnerToken",
    "PausedToken",
  ]) {
    it(`A10 A12 A13 ${name}: the item fails, moves nothing and changes nothing, and can be retried`, async () => {
      const { w, token, s, neighbour, due } = await withToken(name);
      await token.arm(true);
      const before = await c.recordOf(w, s.idHash);
      const address = await token.getAddress();
      await expect(c.at(due, () => w.turnpike.renew(s.idHash)))
        .to.be.revertedWithCustomError(w.turnpike, "TransferFailed")
        .withArgs(address, w.subscriber.address, w.treasury.address, c.PRICE);

      const batch = [s.idHash, neighbour.idHash, s.idHash];
      const failed = c.reasonOf(w, "TransferFailed");
      expect(await w.turnpike.renewBatch.staticCall(batch)).to.deep.equal([failed, OK, failed]);
      const sent = await w.turnpike.renewBatch(batch);
      await expect(sent).to.emit(w.turnpike, "RenewalFailed").withArgs(s.idHash, failed);
      await expect(sent).to.changeTokenBalance(w.token, w.treasury, c.PRICE);

      const debits = [{ idHash: s.idHash, amount: 1n, index: 0n }];
      expect(await w.turnpike.connect(w.operator).debitBatch.staticCall(debits)).to.deep.equal([failed]);
      await w.turnpike.connect(w.operator).debitBatch(debits);
      expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
      await token.arm(false);
      expect(await balances(token, w.treasury)).to.deep.equal([c.PRICE]);
      await expect(w.turnpike.renew(s.idHash)).to.changeTokenBalance(token, w.treasury, c.PRICE);
    });

    it(`A10 ${name}: no signup`, async () => {
      const { w, token, planId } = await withToken(name);
      await token.arm(true);
      const secretHash = c.freshSecretHash();
      await expect(
        w.turnpike
          .connect(w.subscriber)
          .subscribe(...c.signupArgs(w.subscriber, { planId, secretHash, maxOverage: 1n })),
      ).to.be.revertedWithCustomError(w.turnpike, "TransferFailed");
      const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
      expect(await w.turnpike.statusOf(idHash)).to.equal(c.Status.NONE);
      expect((await w.lens.getAllowance(idHash)).cap).to.equal(0n);
    });
  }

  it("A12 does not blame a subscriber who has exactly what is asked, in funds and in approval", async () => {
    const { w, token, s, due } = await withToken("PausedToken");
    await token.connect(w.subscriber).transfer(w.stranger, (await token.balanceOf(w.subscriber)) - c.PRICE);
    await token.connect(w.subscriber).approve(w.turnpike, c.PRICE);
    await token.arm(true);
    await expect(c.at(due, () => w.turnpike.renew(s.idHash))).to.be.revertedWithCustomError(
      w.turnpike,
      "TransferFailed",
    );
  });

  it("A12 names the cause that a view answers within 50,000 gas, and no cause when it needs more", async () => {
    const { w, token, s, due } = await withToken("GasProbeToken");
    const probe = await ethers.getContractAt("GasProbeToken", await token.getAddress());
    await token.arm(true);
    await c.statusAt(w, s.idHash, due);
    const errors = [c.reasonOf(w, "InsufficientFunds"), c.reasonOf(w, "TransferFailed")];
    // The way to the view's own measurement costs it less than 1,000, and its storage 2,100 each.
    for (const [need, error] of [
      [45_000n, errors[0]],
      [50_000n, errors[1]],
    ] as const) {
      await probe.requireGas(need);
      expect(await w.turnpike.renewBatch.staticCall([s.idHash]), `${need}`).to.deep.equal([error]);
      await expect(w.turnpike.renew(s.idHash)).to.be.revertedWithCustomError(
        w.turnpike,
        error === errors[0] ? "InsufficientFunds" : "TransferFailed",
      );
    }
  });

  it("A10 a token whose code is gone fails, and changes nothing", async () => {
    const { w, token, s, due } = await withToken("FalseToken");
    const before = await c.recordOf(w, s.idHash);
    await ethers.provider.send("hardhat_setCode", [await token.getAddress(), "0x"]);
    await expect(c.at(due, () => w.turnpike.renew(s.idHash))).to.be.revertedWithCustomError(
      w.turnpike,
      "TransferFailed",
    );
    expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
  });

  it("A11 a fee on transfers is the provider's loss alone", async () => {
    const { w, token, s, due } = await withToken("FeeToken");
    await token.arm(true);
    const sent = c.at(due, () => w.turnpike.renew(s.idHash));
    await expect(sent).to.changeTokenBalances(token, [w.subscriber, w.treasury], [-c.PRICE, (c.PRICE * 99n) / 100n]);
    expect(await token.balanceOf(w.turnpike)).to.equal(0n);
  });

  it("A13 L18 twelve poisoned items in a hundred: 88 are collected, within a block's gas", async () => {
    const w = await c.world();
    const faults = ["GasBurnerToken", "RevertBombToken", "ReturnBombToken", "MovesThenFalseToken"];
    const ids: string[] = [];
    const poisoned = new Set<string>();
    for (const name of faults) {
      const token = (await ethers.deployContract(name)) as unknown as FaultyToken;
      await token.mint(w.subscriber, 100n * c.PRICE);
      await token.connect(w.subscriber).approve(w.turnpike, c.FOREVER);
      const planId = await c.createPlan(w, { token: await token.getAddress() });
      for (let i = 0; i < 3; i += 1) poisoned.add((await c.subscribe(w, { planId })).idHash);
      await token.arm(true);
    }
    ids.push(...poisoned);
    let due = 0;
    for (let i = 0; i < 88; i += 1) {
      const s = await c.subscribe(w);
      ids.splice((i * 7) % ids.length, 0, s.idHash);
      due = s.paidThrough;
    }
    const sent = await c.at(due, () => w.turnpike.renewBatch(ids, { gasLimit: 2n ** 24n }));
    await expect(sent).to.changeTokenBalance(w.token, w.treasury, 88n * c.PRICE);
    const receipt = await sent.wait();
    const failures = c
      .present(receipt)
      .logs.map((log) => w.turnpike.interface.parseLog(log))
      .filter((log) => log?.name === "RenewalFailed")
      .map((log) => c.present(log).args.idHash as string);
    expect(failures.sort()).to.deep.equal([...poisoned].sort());
    expect(c.present(receipt).gasUsed).to.be.lessThan(12n * 460_000n + 88n * 30_000n);
  });

  describe("that re-enter", () => {
    async function reentrant() {
      const r = await withToken("ReentrantToken");
      const token = await ethers.getContractAt("ReentrantToken", await r.token.getAddress());
      return { ...r, token, call: r.w.turnpike.interface };
    }

    it("A9 renew again: one charge", async () => {
      const { w, token, s, call, due } = await loadFixture(reentrant);
      for (const data of [
        call.encodeFunctionData("renew", [s.idHash]),
        call.encodeFunctionData("multicall", [[call.encodeFunctionData("renew", [s.idHash])]]),
      ]) {
        const before = await c.recordOf(w, s.idHash);
        await token.plant(w.turnpike, data);
        const sent = c.at(Number(before.paidThrough), () => w.turnpike.renew(s.idHash));
        await expect(sent).to.changeTokenBalance(token, w.treasury, c.PRICE);
        expect(await token.reentered()).to.equal(false);
        expect((await token.answer()).slice(0, 10)).to.equal(c.reasonOf(w, "RenewalNotDue"));
        expect(await c.paidThroughOf(w, s.idHash)).to.equal(Number(before.paidThrough) + c.INTERVAL);
      }
      expect(due).to.be.greaterThan(0);
    });

    it("A9 renewBatch inside renew: the same record fails there, and is charged once", async () => {
      const { w, token, s, neighbour, call, due } = await loadFixture(reentrant);
      await token.plant(w.turnpike, call.encodeFunctionData("renewBatch", [[s.idHash]]));
      await expect(c.at(due, () => w.turnpike.renew(s.idHash, { gasLimit: 2_000_000n }))).to.changeTokenBalance(
        token,
        w.treasury,
        c.PRICE,
      );
      expect(await c.paidThroughOf(w, s.idHash)).to.equal(due + c.INTERVAL);
      expect(await c.paidThroughOf(w, neighbour.idHash)).to.equal(neighbour.paidThrough);
    });

    it("A9 debit again at the same index: one debit", async () => {
      const { w, token, planId, s, call } = await loadFixture(reentrant);
      await w.turnpike.connect(w.provider).setOperator(planId, token, c.Right.DEBIT);
      await token.plant(w.turnpike, call.encodeFunctionData("debit", [s.idHash, 60n, 0n]));
      const operator = w.turnpike.connect(w.operator);
      await expect(operator.debit(s.idHash, 60n, 0n)).to.changeTokenBalance(token, w.treasury, 60n);
      expect((await token.answer()).slice(0, 10)).to.equal(c.reasonOf(w, "StaleDebit"));
      // And at the next index it finds the cap already used.
      await token.plant(w.turnpike, call.encodeFunctionData("debit", [s.idHash, 1n, 2n]));
      await operator.debit(s.idHash, 40n, 1n);
      expect((await token.answer()).slice(0, 10)).to.equal(c.reasonOf(w, "AllowanceExhausted"));
      expect((await c.recordOf(w, s.idHash)).spent).to.equal(100n);
    });

    it("A9 subscribe with the same signature, in the permit or in the transfer: one signup", async () => {
      const { w, token, planId, call } = await loadFixture(reentrant);
      const secretHash = c.freshSecretHash();
      const message = { subscriber: w.subscriber.address, planId, secretHash, maxOverage: 0n, deadline: c.FOREVER };
      const signature = await c.sign(w, w.subscriber, "Subscribe", message);
      const by = { deadline: c.FOREVER, signature };
      const args = c.signupArgs(w.subscriber.address, { planId, secretHash }, by);
      await token.plant(w.turnpike, call.encodeFunctionData("subscribe", [...args]));
      await expect(w.turnpike.subscribe(...args)).to.changeTokenBalance(token, w.treasury, c.PRICE);
      expect((await token.answer()).slice(0, 10)).to.equal(c.reasonOf(w, "IdHashUsed"));

      const again = c.freshSecretHash();
      const second = await c.sign(w, w.subscriber, "Subscribe", { ...message, secretHash: again });
      const send = (permit?: c.Permit) =>
        c.signupArgs(w.subscriber.address, { planId, secretHash: again }, { ...by, signature: second, permit });
      await token.plant(w.turnpike, call.encodeFunctionData("subscribe", [...send()]));
      await expect(w.turnpike.subscribe(...send({ value: 0n, deadline: 1n, signature: `0x${"00".repeat(65)}` })))
        .to.be.revertedWithCustomError(w.turnpike, "IdHashUsed")
        .withArgs(await w.turnpike.idHashOf(w.subscriber, again));
    });

    it("A9 cancel in the middle of a charge that was under way: one charge, nothing after", async () => {
      const { w, token, s, call, due } = await loadFixture(reentrant);
      const auth = await c.authFor(w, "Cancel", s.idHash, { atPeriodEnd: false });
      await token.plant(w.turnpike, call.encodeFunctionData("cancel", [s.idHash, false, auth]));
      await expect(c.at(due, () => w.turnpike.renew(s.idHash))).to.changeTokenBalance(token, w.treasury, c.PRICE);
      expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.CANCELLED);
    });

    it("A9 cannot reach the item frames, nor settle anything that was not signed", async () => {
      const { w, token, s, call, due } = await loadFixture(reentrant);
      await token.plant(w.turnpike, call.encodeFunctionData("debitInner", [s.idHash, 1n, 0n, w.operator.address]));
      await c.at(due, () => w.turnpike.renew(s.idHash));
      expect((await token.answer()).slice(0, 10)).to.equal(c.reasonOf(w, "OnlySelf"));
    });
  });
});
