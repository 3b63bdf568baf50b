import { expect } from "chai";
import { Signature, Transaction } from "ethers";
import fc from "fast-check";
import { type Address, checksum, type Hex, signDigest, toHex } from "turnpike/protocol";
import { signRaw } from "../../../facilitator/src/relayer/raw-transaction";

const hexOf = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((b): Hex => `0x${Buffer.from(b).toString("hex")}`);
const address = hexOf(20).map((value): Address => checksum(value));

describe("signing raw transactions", () => {
  it("writes and signs a transaction as ethers does, at every length that RLP distinguishes", async () => {
    const key = hexOf(32).filter((value) => BigInt(value) > 0n && BigInt(value) < 2n ** 255n);
    const length = fc.constantFrom(0, 1, 4, 54, 55, 56, 57, 255, 256, 257, 65_535, 65_536, 90_000);
    const data = length.chain((size) =>
      fc.integer({ min: 0, max: 255 }).map((fill) => toHex(new Uint8Array(size).fill(fill))),
    );
    const fee = fc.bigInt(0n, 2n ** 70n);
    const fields = fc.record({
      chainId: fc.integer({ min: 1, max: 2 ** 40 }),
      nonce: fc.integer({ min: 0, max: 2 ** 33 }),
      to: address,
      data,
      gasLimit: fc.bigInt(21_000n, 2n ** 24n),
      tip: fee,
      margin: fee,
    });
    await fc.assert(
      fc.asyncProperty(fields, key, async ({ tip, margin, ...rest }, secret) => {
        const wanted = { ...rest, priorityFeeWei: tip, maxFeeWei: tip + margin };
        const signed = await signRaw(wanted, (digest) => signDigest(digest, secret));
        const expected = Transaction.from({
          type: 2,
          chainId: wanted.chainId,
          nonce: wanted.nonce,
          to: wanted.to,
          data: wanted.data,
          gasLimit: wanted.gasLimit,
          maxFeePerGas: wanted.maxFeeWei,
          maxPriorityFeePerGas: wanted.priorityFeeWei,
          value: 0n,
        });
        expected.signature = Signature.from(signDigest(expected.unsignedHash as Hex, secret));
        expect(signed.raw).to.equal(expected.serialized);
        expect(signed.hash).to.equal(expected.hash);
      }),
      { numRuns: 60 },
    );
  });
});
