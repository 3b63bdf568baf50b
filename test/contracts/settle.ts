// BatchSettler.settle.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { type BaseContract, concat, dataSlice, hexlify, id, randomBytes, type Signer, toBeHex } from "ethers";
import { ethers } from "hardhat";
import type { TransferStruct } from "../../sdk/src/chain/generated/contracts/BatchSettler";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

const GAS_PER_ITEM = 150_000n;

async function authorize(
  w: c.World,
  overrides: Partial<TransferStruct> = {},
  options: { token?: BaseContract; name?: string; signer?: Signer } = {},
): Promise<TransferStruct> {
  const { token = w.token, name = "Test USD", signer = w.subscriber } = options;
  const { chainId } = await ethers.provider.getNetwork();
  const verifyingContract = await token.getAddress();
  const message = {
    from: await signer.getAddress(),
    to: w.treasury.address,
    value: 5n,
    validAfter: 0n,
    validBefore: BigInt(await time.latest()) + 1_000n,
    nonce: hexlify(randomBytes(32)),
    ...overrides,
  };
  const signature = await signer.signTypedData(
    { name, version: "1", chainId, verifyingContract },
    {
      TransferWithAuthorization: [
        { name: "from", type: "address" },
        { name: "to", type: "address" },
        { name: "value", type: "uint256" },
        { name: "validAfter", type: "uint256" },
        { name: "validBefore", type: "uint256" },
        { name: "nonce", type: "bytes32" },
      ],
    },
    message,
  );
  return { token: verifyingContract, signature, ...message, ...overrides };
}

describe("BatchSettler", () => {
  describe("settle", () => {
    const settle = (w: c.World, transfers: TransferStruct[], gas = GAS_PER_ITEM) =>
      w.settler.connect(w.relayer).settle(transfers, gas);
    const outcome = (w: c.World, transfers: TransferStruct[]) =>
      w.settler.connect(w.relayer).settle.staticCall(transfers, GAS_PER_ITEM);

    it("L24 moves what was signed, to whom it was signed, and holds nothing", async () => {
      const w = await loadFixture(c.world);
      const batch = [await authorize(w), await authorize(w, { value: 7n, to: w.stranger.address })];
      expect(await outcome(w, batch)).to.deep.equal([true, true]);
      const sent = await settle(w, batch);
      await expect(sent).to.changeTokenBalances(
        w.token,
        [w.subscriber, w.treasury, w.stranger, w.settler],
        [-12n, 5n, 7n, 0n],
      );
      await expect(sent).to.emit(w.token, "AuthorizationUsed").withArgs(w.subscriber.address, batch[0]?.nonce);
      await expect(w.settler.settle([], 0n)).to.not.be.reverted;
    });

    it("A31 A15 skips what is used, also twice in one batch, and settles the rest", async () => {
      const w = await loadFixture(c.world);
      const [used, fresh] = [await authorize(w), await authorize(w)];
      await settle(w, [used]);
      const batch = [used, fresh, fresh];
      expect(await outcome(w, batch)).to.deep.equal([false, true, false]);
      await expect(settle(w, batch)).to.changeTokenBalance(w.token, w.treasury, 5n);
    });

    it("skips what is forged, malformed, underfunded or without a token", async () => {
      const w = await loadFixture(c.world);
      const good = await authorize(w);
      const batch = [
        { ...good, value: 6n },
        { ...good, to: w.stranger.address },
        { ...good, signature: "0x" },
        { ...good, signature: dataSlice(String(good.signature), 0, 64) },
        { ...good, signature: concat([String(good.signature), "0x00"]) },
        { ...good, signature: `0x${"00".repeat(65)}` },
        await authorize(w, { value: 10_000n * c.PRICE }),
        { ...good, token: w.stranger.address },
        { ...good, token: await w.settler.getAddress() },
        { ...good, nonce: id("another") },
      ];
      expect(await outcome(w, [...batch, good])).to.deep.equal([...batch.map(() => false), true]);
      await expect(settle(w, [...batch, good])).to.changeTokenBalance(w.token, w.treasury, 5n);
    });

    it("L1 sends nothing to itself, where it would be lost", async () => {
      const w = await loadFixture(c.world);
      const lost = await authorize(w, { to: await w.settler.getAddress() });
      expect(await outcome(w, [lost])).to.deep.equal([false]);
      await expect(settle(w, [lost])).to.changeTokenBalance(w.token, w.subscriber, 0n);
    });

    it("A34 keeps to the window, exclusive at both ends", async () => {
      const w = await loadFixture(c.world);
      const now = (await time.latest()) + 100;
      const transfers = [
        await authorize(w, { validAfter: now, validBefore: now + 10 }),
        await authorize(w, { validAfter: now - 1, validBefore: now + 1 }),
        await authorize(w, { validAfter: now - 10, validBefore: now }),
      ];
      const sent = await c.at(now, () => settle(w, transfers));
      await expect(sent).to.changeTokenBalance(w.token, w.treasury, 5n);
      await expect(sent).to.emit(w.token, "AuthorizationUsed").withArgs(w.subscriber.address, transfers[1]?.nonce);
    });

    it("takes an ERC-1271 wallet's signature through the bytes form, and a 65-byte one through v, r, s", async () => {
      const w = await loadFixture(c.world);
      const wallet = await ethers.deployContract("FickleWallet", [w.stranger.address]);
      await wallet.answer(true);
      await w.token.mint(wallet, 5n);
      const t = await authorize(w, { from: await wallet.getAddress() });
      const long = { ...t, signature: concat([String(t.signature), "0x0102"]) };
      expect(await outcome(w, [long, t])).to.deep.equal([true, false]);
      await expect(settle(w, [long])).to.changeTokenBalance(w.token, w.treasury, 5n);
    });

    it("A33 a token that answers a used nonce with success moves nothing: the log is the evidence, not the answer", async () => {
      const w = await loadFixture(c.world);
      const token = await ethers.deployContract("PaxosToken");
      await token.mint(w.subscriber, 100n);
      const t = await authorize(w, {}, { token, name: "Paxos Like" });
      const long = { ...t, signature: concat([String(t.signature), "0x00"]) };
      expect(await outcome(w, [long])).to.deep.equal([false]);
      await expect(settle(w, [t])).to.emit(token, "Transfer");
      expect(await outcome(w, [t])).to.deep.equal([true]);
      const sent = settle(w, [t]);
      await expect(sent).to.emit(token, "AuthorizationAlreadyUsed");
      await expect(sent).to.not.emit(token, "Transfer");
    });

    it("A13 A14 gives each item its gas or reverts as a whole", async () => {
      const w = await loadFixture(c.world);
      const batch = await Promise.all(Array.from({ length: 10 }, () => authorize(w)));
      const outcomes = new Set<string>();
      for (let gasLimit = 80_000n; gasLimit < 900_000n; gasLimit += 9_973n) {
        const ok = await w.settler.settle.staticCall(batch, GAS_PER_ITEM, { gasLimit }).catch(() => undefined);
        if (ok) expect(ok, `at ${gasLimit}`).to.deep.equal(batch.map(() => true));
        outcomes.add(ok ? "settled" : "refused");
      }
      expect([...outcomes].sort()).to.deep.equal(["refused", "settled"]);
    });

    it("A13 A14 names the gas that a batch needs, however much it is", async () => {
      const w = await loadFixture(c.world);
      const batch = await Promise.all(Array.from({ length: 10 }, () => authorize(w)));
      const required = (GAS_PER_ITEM * 64n) / 63n + 10_000n;
      await expect(w.settler.settle(batch, GAS_PER_ITEM, { gasLimit: 200_000n }))
        .to.be.revertedWithCustomError(w.settler, "InsufficientGas")
        .withArgs(
          (available: bigint) => available < required,
          (needed: bigint) => needed === required,
        );
      const most = 2n ** 64n - 1n;
      for (const [absurd, needed] of [
        [most, (most * 64n) / 63n + 10_000n],
        [most + 1n, most + 1n], // from here on as it is: the sum could overflow
        [c.FOREVER, c.FOREVER],
      ]) {
        await expect(w.settler.settle(batch, c.present(absurd)))
          .to.be.revertedWithCustomError(w.settler, "InsufficientGas")
          .withArgs(
            (available: bigint) => available < c.present(needed),
            (required: bigint) => required === needed,
          );
      }
    });

    it("A14 cannot be starved by a long signature either", async () => {
      const w = await loadFixture(c.world);
      const wallet = await ethers.deployContract("FickleWallet", [w.stranger.address]);
      await wallet.answer(true);
      await w.token.mint(wallet, 100n);
      const t = await authorize(w, { from: await wallet.getAddress() });
      const batch = [{ ...t, signature: `0x${"00".repeat(30_000)}` }];
      const outcomes = new Set<string>();
      for (let gasLimit = 250_000n; gasLimit < 900_000n; gasLimit += 4_999n) {
        const ok = await w.settler.settle.staticCall(batch, 200_000n, { gasLimit }).catch(() => undefined);
        if (ok) expect(ok, `at ${gasLimit}`).to.deep.equal([true]);
        outcomes.add(ok ? "settled" : "refused");
      }
      expect([...outcomes].sort()).to.deep.equal(["refused", "settled"]);
    });

    /** The call, with the words of item `index` replaced: 0 token, 2 to, 7 the offset of the signature. */
    async function corrupted(w: c.World, batch: TransferStruct[], index: number, word: number, value: bigint) {
      const data = w.settler.interface.encodeFunctionData("settle", [batch, GAS_PER_ITEM]);
      const read = (at: number) => BigInt(dataSlice(data, at, at + 32));
      const list = 4 + Number(read(4)) + 32; // after the length, where the offsets of the items begin
      const at = list + Number(read(list + 32 * index)) + 32 * word;
      return concat([dataSlice(data, 0, at), toBeHex(value, 32), dataSlice(data, at + 32)]);
    }
    const answerTo = async (w: c.World, data: string) =>
      w.settler.interface.decodeFunctionResult("settle", await w.relayer.call({ to: w.settler, data }))[0] as boolean[];

    it("T16 skips an item whose receiver has a dirty upper byte, and settles the rest", async () => {
      const w = await loadFixture(c.world);
      const batch = [await authorize(w), await authorize(w), await authorize(w)];
      const to = BigInt(w.treasury.address);
      for (const dirt of [1n << 160n, 1n << 255n]) {
        const data = await corrupted(w, batch, 1, 2, to | dirt);
        expect(await answerTo(w, data)).to.deep.equal([true, false, true]);
      }
      const own = BigInt(await w.settler.getAddress()) | (1n << 160n);
      expect(await answerTo(w, await corrupted(w, batch, 1, 2, own))).to.deep.equal([true, false, true]);
      const data = await corrupted(w, batch, 1, 2, to | (1n << 160n));
      await expect(w.relayer.sendTransaction({ to: w.settler, data })).to.changeTokenBalance(w.token, w.treasury, 10n);
    });

    it("T16 ignores dirty upper bytes of a token: the same payment settles, once", async () => {
      const w = await loadFixture(c.world);
      const batch = [await authorize(w), await authorize(w)];
      const token = BigInt(await w.token.getAddress()) | (255n << 248n);
      const data = await corrupted(w, batch, 1, 0, token);
      expect(await answerTo(w, data)).to.deep.equal([true, true]);
      await expect(w.relayer.sendTransaction({ to: w.settler, data })).to.changeTokenBalance(w.token, w.treasury, 10n);
      expect(await answerTo(w, data)).to.deep.equal([false, false]);
    });

    it("T16 reverts as a whole for calldata that is no array of transfers: a bad offset or length", async () => {
      const w = await loadFixture(c.world);
      const batch = [await authorize(w), await authorize(w)];
      const length = await corrupted(w, batch, 1, 8, 2n ** 32n);
      const sound = w.settler.interface.encodeFunctionData("settle", [batch, GAS_PER_ITEM]);
      const offset = 4 + 64 + 32 + 32; // of the second item
      const item = concat([dataSlice(sound, 0, offset), toBeHex(2n ** 64n, 32), dataSlice(sound, offset + 32)]);
      expect(await answerTo(w, sound)).to.deep.equal([true, true]);
      for (const data of [item, length, await corrupted(w, batch, 1, 7, 2n ** 64n), dataSlice(sound, 0, 200)]) {
        await expect(w.relayer.call({ to: w.settler, data })).to.be.reverted;
        await expect(w.relayer.sendTransaction({ to: w.settler, data, gasLimit: 1_000_000n })).to.be.reverted;
      }
      expect(await w.token.balanceOf(w.treasury)).to.equal(0n);
    });

    it("A13 is not stopped by an item that burns its gas", async () => {
      const w = await loadFixture(c.world);
      const burner = await ethers.deployContract("BurnerWallet", [w.stranger.address]);
      const [good, other] = [await authorize(w), await authorize(w)];
      const poisoned = { ...good, from: await burner.getAddress(), signature: `${good.signature}00` };
      expect(await outcome(w, [poisoned, good, poisoned, other])).to.deep.equal([false, true, false, true]);
      await expect(settle(w, [poisoned, good, poisoned, other])).to.changeTokenBalance(w.token, w.treasury, 10n);
    });

    it("A9 moves once what a token in the same batch settles by re-entering", async () => {
      const w = await loadFixture(c.world);
      const token = await ethers.deployContract("ReentrantToken");
      const good = await authorize(w);
      const data = w.settler.interface.encodeFunctionData("settle", [[good], GAS_PER_ITEM]);
      await token.plant(w.settler, data);
      const batch = [{ ...good, token: await token.getAddress() }, good];
      await expect(settle(w, batch, 600_000n)).to.changeTokenBalance(w.token, w.treasury, 5n);
      expect(await token.reentered()).to.equal(true);
    });
  });
});
