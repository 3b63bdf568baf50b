// BatchSettler.settle under every gas limit: all of it, or nothing of it. GAS_STEP makes the sweep finer.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { concat, id, type Signer } from "ethers";
import { ethers } from "hardhat";
import type { TransferStruct } from "../../sdk/src/chain/generated/contracts/BatchSettler";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfDeployedCode } from "./support/deployed-code";

/** No transaction may have more (EIP-7825). */
const CAP = 2n ** 24n;
const STEP = BigInt(process.env.GAS_STEP ?? 25_013);
const GAS_PER_ITEM = 150_000n;

const TYPES = {
  TransferWithAuthorization: [
    "address from",
    "address to",
    "uint256 value",
    "uint256 validAfter",
    "uint256 validBefore",
    "bytes32 nonce",
  ].map((field) => ({ type: field.split(" ")[0] ?? "", name: field.split(" ")[1] ?? "" })),
};
let signed = 0;

async function authorize(w: c.World, from: string, signer: Signer): Promise<TransferStruct> {
  const verifyingContract = await w.token.getAddress();
  const { chainId } = await ethers.provider.getNetwork();
  const message = {
    from,
    to: w.treasury.address,
    value: 5n,
    validAfter: 0n,
    validBefore: BigInt(await time.latest()) + 1_000n,
    nonce: id(`swept ${signed++}`),
  };
  const domain = { name: "Test USD", version: "1", chainId, verifyingContract };
  return { token: verifyingContract, signature: await signer.signTypedData(domain, TYPES, message), ...message };
}

/** Sound payments of keys and of a wallet, between items that are used, forged, or burn all the gas they get. */
async function mixture() {
  const w = await c.world();
  const good = (count: number) =>
    Promise.all(Array.from({ length: count }, () => authorize(w, w.subscriber.address, w.subscriber)));
  const wallet = await ethers.deployContract("FickleWallet", [w.stranger.address]);
  await wallet.answer(true);
  await w.token.mint(wallet, 100n);
  const burner = await ethers.deployContract("BurnerWallet", [w.stranger.address]);
  const [used, ...others] = await good(5);
  await w.settler.settle([c.present(used)], GAS_PER_ITEM);
  const ofWallet = await authorize(w, await wallet.getAddress(), w.subscriber);
  const walletItem = { ...ofWallet, signature: concat([String(ofWallet.signature), "0x00"]) };
  const [a, b, d, e] = others as [TransferStruct, TransferStruct, TransferStruct, TransferStruct];
  const poison = { ...a, from: await burner.getAddress(), signature: concat([String(a.signature), "0x00"]) };
  const batch = [a, poison, c.present(used), b, walletItem, { ...b, value: 6n }, d, poison, e];
  return { w, batch, ok: [true, false, false, true, true, false, true, false, true] };
}

async function single() {
  const w = await c.world();
  return { w, batch: [await authorize(w, w.subscriber.address, w.subscriber)], ok: [true] };
}

describe("BatchSettler under every gas limit", function () {
  this.timeout(3_600_000);

  for (const [what, fixture] of [
    ["one payment", single],
    ["sound, spoilt and gas-burning payments", mixture],
  ] as const) {
    itOfDeployedCode(`A14 A40 L16 ${what}: it reverts as a whole, or every sound one moves`, async () => {
      const { w, batch, ok } = await loadFixture(fixture);
      const data = w.settler.interface.encodeFunctionData("settle", [batch, GAS_PER_ITEM]);
      const intrinsic = intrinsicGas(data);
      // Every item may take what it is given, and a little is needed around it: above that nothing changes any more.
      const plenty = intrinsic + (GAS_PER_ITEM + 15_000n) * BigInt(batch.length + 1) + 50_000n;
      const limits: bigint[] = [];
      for (let limit = intrinsic; limit < plenty; limit += STEP) limits.push(limit);
      for (let limit = plenty; limit < CAP; limit = (limit * 5n) / 4n) limits.push(limit);
      limits.push(CAP);
      const seen: string[] = [];
      for (const gasLimit of limits) {
        const results = await w.settler
          .connect(w.relayer)
          .settle.staticCall(batch, GAS_PER_ITEM, { gasLimit })
          .catch(() => undefined);
        if (results) expect(results, `with ${gasLimit} gas`).to.deep.equal(ok);
        seen.push(results ? "settled" : "refused");
      }
      const firstSettled = seen.indexOf("settled");
      expect(firstSettled, "too little gas is refused").to.be.greaterThan(0);
      expect(seen.at(-1)).to.equal("settled");
      expect(limits[firstSettled] as bigint, "what the Facilitator gives is enough").to.be.at.most(plenty);
    });
  }

  itOfDeployedCode(
    "A14 L16 mined at the limits around the first that suffices: refused and nothing moved, or all moved",
    async () => {
      const { w, batch, ok } = await loadFixture(mixture);
      const settles = (gasLimit: bigint) =>
        w.settler.settle.staticCall(batch, GAS_PER_ITEM, { gasLimit }).then(
          () => true,
          () => false,
        );
      let [low, high] = [21_000n, CAP];
      while (high - low > 1n) {
        const middle = (low + high) / 2n;
        if (await settles(middle)) high = middle;
        else low = middle;
      }
      const sound = BigInt(ok.filter(Boolean).length);
      const held = () => w.token.balanceOf(w.treasury);
      const before = await held();
      for (const gasLimit of [low - 1_000n, low]) {
        const sent = await w.settler
          .connect(w.relayer)
          .settle(batch, GAS_PER_ITEM, { gasLimit })
          .then(
            (transaction) => transaction.wait(),
            () => null,
          )
          .catch(() => null);
        expect(sent?.status ?? 0).to.equal(0);
        expect(await held()).to.equal(before);
      }
      await (await w.settler.connect(w.relayer).settle(batch, GAS_PER_ITEM, { gasLimit: high + 1_000n })).wait();
      expect(await held()).to.equal(before + 5n * sound);
    },
  );
});

/** By the dearer of the two rules (EIP-7623). */
function intrinsicGas(data: string): bigint {
  const bytes = Buffer.from(data.slice(2), "hex");
  const zeros = bytes.filter((byte) => byte === 0).length;
  const others = bytes.length - zeros;
  return 21_000n + BigInt(Math.max(zeros * 4 + others * 16, zeros * 10 + others * 40));
}
