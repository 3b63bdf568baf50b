// A poisoned item of every kind, first, in the middle and last of a hundred: the other ninety-nine go through.

import { expect } from "chai";
import { hexlify, id, toUtf8Bytes, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import type { FaultyToken } from "../../sdk/src/chain/generated";
import type { TransferStruct } from "../../sdk/src/chain/generated/contracts/BatchSettler";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfDeployedCode } from "./support/deployed-code";

const OK = "0x00000000";
const POSITIONS = [0, 49, 99];
/** The most that one transaction may use, which a hundred items of the deployed code fit into. */
const GAS = { gasLimit: 2n ** 24n };
const FAULTS = [
  "FalseToken",
  "MovesThenFalseToken",
  "TwoToken",
  "WordyToken",
  "ReturnBombToken",
  "RevertBombToken",
  "ForgingToken",
  "GasBurnerToken",
  "PausedToken",
] as const;

/** `items` with `poison` at `position`. */
function poisonedAt<T>(position: number, items: readonly T[], poison: T): T[] {
  return [...items.slice(0, position), poison, ...items.slice(position)];
}

/** Ninety-nine sound subscriptions, and one for each way to fail. */
async function subscriptions() {
  const w = await c.world();
  const poisons = new Map<string, string>();
  const options = { maxOverage: 100n };
  for (const name of FAULTS) {
    const token = (await ethers.deployContract(name)) as unknown as FaultyToken;
    await token.mint(w.subscriber, 100n * c.PRICE);
    await token.connect(w.subscriber).approve(w.turnpike, c.FOREVER);
    const planId = await c.createPlan(w, { token: await token.getAddress() });
    await w.turnpike.connect(w.provider).setOperator(planId, w.operator, c.Right.DEBIT);
    poisons.set(name, (await c.subscribe(w, { ...options, planId })).idHash);
    await token.arm(true);
  }
  const me = w.turnpike.connect(w.subscriber);
  const [cancelled, paused] = [await c.subscribe(w, options), await c.subscribe(w, options)];
  await me.cancel(cancelled.idHash, false, c.NO_AUTH);
  await me.pause(paused.idHash, c.NO_AUTH);
  await w.token.mint(w.stranger, c.PRICE);
  await w.token.connect(w.stranger).approve(w.turnpike, c.FOREVER);
  const poor = await c.subscribe(w, { ...options, subscriber: w.stranger });
  await w.token.mint(w.relayer, 10n * c.PRICE);
  await w.token.connect(w.relayer).approve(w.turnpike, c.PRICE);
  const unapproved = await c.subscribe(w, { ...options, subscriber: w.relayer });
  for (const [name, s] of Object.entries({ cancelled, paused, poor, unapproved })) poisons.set(name, s.idHash);
  poisons.set("unknown", id("?"));
  const sound: string[] = [];
  let due = 0;
  for (let i = 0; i < 99; i += 1) {
    const s = await c.subscribe(w, options);
    sound.push(s.idHash);
    due = s.paidThrough;
  }
  poisons.set("twice", c.present(sound[98]));
  return { w, poisons, sound, due };
}

describe("A hundred items, one of them poisoned", () => {
  itOfDeployedCode("A13 L17 99 renewals are collected", async () => {
    const { poisons } = await loadFixture(subscriptions);
    for (const name of poisons.keys()) {
      for (const position of name === "twice" ? [99] : POSITIONS) {
        const { w, sound, due, poisons } = await loadFixture(subscriptions);
        const poison = c.present(poisons.get(name));
        const batch = poisonedAt(position, sound, poison);
        const before = await c.recordOf(w, poison);
        await c.statusAt(w, poison, due);
        const reasons = await w.turnpike.renewBatch.staticCall(batch, GAS);
        const where = `${name} at ${position}`;
        expect(reasons.filter((reason) => reason === OK).length, where).to.equal(99);
        expect(reasons[position], where).to.not.equal(OK);
        const sent = w.turnpike.renewBatch(batch, GAS);
        await expect(sent, where).to.changeTokenBalance(w.token, w.treasury, 99n * c.PRICE);
        if (name !== "twice") expect(await c.recordOf(w, poison), where).to.deep.equal(before);
      }
    }
  });

  itOfDeployedCode("A13 L17 99 debits are collected", async () => {
    const { poisons } = await loadFixture(subscriptions);
    const wrong = [
      { name: "nothing", amount: 0n, index: 0n },
      { name: "above the cap", amount: 101n, index: 0n },
      { name: "stale", amount: 1n, index: 1n },
      { name: "out of all bounds", amount: c.FOREVER, index: c.FOREVER },
    ];
    const others = [...poisons.keys()].filter((name) => name !== "twice");
    for (const { name, amount, index } of [...wrong, ...others.map((name) => ({ name, amount: 1n, index: 0n }))]) {
      for (const position of POSITIONS) {
        const { w, sound, poisons } = await loadFixture(subscriptions);
        // Its cap is raised: what is wrong with it is the debit alone.
        const poison = poisons.get(name) ?? (await c.subscribe(w, { maxOverage: 100n })).idHash;
        if (name === "unapproved") await w.token.connect(w.relayer).approve(w.turnpike, 0n);
        const good = sound.map((idHash) => ({ idHash, amount: 1n, index: 0n }));
        const batch = poisonedAt(position, good, { idHash: poison, amount, index });
        const operator = w.turnpike.connect(w.operator);
        const reasons = await operator.debitBatch.staticCall(batch, GAS);
        const where = `${name} at ${position}`;
        expect(reasons.filter((reason) => reason === OK).length, where).to.equal(99);
        expect(reasons[position], where).to.not.equal(OK);
        await expect(operator.debitBatch(batch, GAS), where).to.changeTokenBalance(w.token, w.treasury, 99n);
      }
    }
  });

  itOfDeployedCode("A13 A31 99 signed payments settle", async () => {
    const w = await loadFixture(c.world);
    const token = await w.token.getAddress();
    const { chainId } = await ethers.provider.getNetwork();
    const authorize = async (value: bigint, nonce: string): Promise<TransferStruct> => {
      const validBefore = 2n ** 40n;
      const message = { from: w.subscriber.address, to: w.treasury.address, value, validAfter: 0n, validBefore, nonce };
      const fields = ["from:address", "to:address", "value:uint256", "validAfter:uint256", "validBefore:uint256"];
      const types = [...fields, "nonce:bytes32"].map((field) => {
        const [name = "", type = ""] = field.split(":");
        return { name, type };
      });
      const domain = { name: "Test USD", version: "1", chainId, verifyingContract: token };
      const signature = await w.subscriber.signTypedData(domain, { TransferWithAuthorization: types }, message);
      return { token, signature, ...message };
    };
    const good = await Promise.all(Array.from({ length: 99 }, (_, i) => authorize(1n, id(`nonce ${i}`))));
    const sample = await authorize(1n, ZeroHash);
    const used = await authorize(1n, id("used"));
    await w.settler.settle([used], 150_000n);
    const burner = await ethers.deployContract("BurnerWallet", [w.stranger.address]);
    const bomb = await ethers.deployContract("BombWallet", [w.stranger.address]);
    const long = `${sample.signature}00`;
    const poisons: Record<string, TransferStruct> = {
      used,
      forged: { ...sample, value: 2n },
      expired: { ...sample, validBefore: 1n },
      early: { ...sample, validAfter: 2n ** 40n },
      underfunded: await authorize(10_000n * c.PRICE, id("poor")),
      unsigned: { ...sample, signature: "0x" },
      verbose: { ...sample, signature: hexlify(toUtf8Bytes("x".repeat(5_000))) },
      "of no token": { ...sample, token: w.stranger.address },
      "to the settler": { ...sample, to: await w.settler.getAddress() },
      burner: { ...sample, from: await burner.getAddress(), signature: long },
      bomb: { ...sample, from: await bomb.getAddress(), signature: long },
    };
    for (const [name, poison] of Object.entries(poisons)) {
      for (const position of POSITIONS) {
        const batch = poisonedAt(position, good, poison);
        const where = `${name} at ${position}`;
        const ok = await w.settler.settle.staticCall(batch, 150_000n, GAS);
        expect(ok, where).to.deep.equal(batch.map((_, i) => i !== position));
      }
    }
    const everything = poisonedAt(49, good, c.present(poisons.burner));
    await expect(w.settler.settle(everything, 150_000n, GAS)).to.changeTokenBalance(w.token, w.treasury, 99n);
  });
});
