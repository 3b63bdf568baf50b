import { expect } from "chai";
import { AbiCoder, keccak256, TypedDataEncoder } from "ethers";
import fc from "fast-check";
import {
  type Address,
  ConfigError,
  checksum,
  type Hex,
  mutableTypes,
  paymentIdOf,
  proofDigest,
  toHex,
  transferTypedData,
  typedDataDigest,
  wordOfAddress,
  wordOfUint,
} from "turnpike/protocol";

const abi = AbiCoder.defaultAbiCoder();
const hexOf = (bytes: number) => fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((b): Hex => toHex(b));
const anyCase = (bytes: number) =>
  fc
    .tuple(hexOf(bytes), fc.boolean())
    .map(([hex, isUpper]): Hex => (isUpper ? `0x${hex.slice(2).toUpperCase()}` : hex));
const address = hexOf(20).map((value): Address => checksum(value));
const uint = fc.oneof(fc.bigInt(0n, 2n ** 256n - 1n), fc.bigInt(0n, 2n ** 54n));
const count = fc.integer({ min: 0, max: 2 ** 40 });
const text = fc.string({ minLength: 1, maxLength: 200, unit: "grapheme" });

describe("protocol > words", () => {
  it("writes integers and addresses as abi.encode does", () => {
    fc.assert(
      fc.property(uint, count, anyCase(20), (large, small, account) => {
        expect(toHex(wordOfUint(large))).to.equal(abi.encode(["uint256"], [large]));
        expect(toHex(wordOfUint(small))).to.equal(abi.encode(["uint256"], [small]));
        expect(toHex(wordOfAddress(account))).to.equal(abi.encode(["address"], [account.toLowerCase()]));
      }),
    );
    for (const edge of [0n, 255n, 256n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 256n - 1n])
      expect(toHex(wordOfUint(edge)), String(edge)).to.equal(abi.encode(["uint256"], [edge]));
  });

  it("rejects what does not fit into its word, so that no value runs into the next", () => {
    for (const value of [-1, -1n, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2n ** 256n])
      expect(() => wordOfUint(value), String(value)).to.throw(ConfigError);
    const digits = "ab".repeat(20);
    for (const bad of [`0x${digits}ab`, `0x${digits.slice(2)}`, `0x${digits.slice(1)}`, "0x", ""])
      expect(() => wordOfAddress(bad), bad).to.throw(ConfigError);
    for (const bad of ["g", "G", "`", "@", ":", "/", " ", "-", "\u0130", "\u{1F600}".slice(0, 1)])
      expect(() => wordOfAddress(`0x${digits.slice(1)}${bad}`), bad).to.throw(ConfigError);
    const nonces = [`0x${"ab".repeat(31)}`, `0x${"ab".repeat(33)}`, `0x${"ab".repeat(31)}zz`] as Hex[];
    for (const nonce of nonces) {
      const key = { chainId: 1, token: checksum(`0x${digits}`), payer: checksum(`0x${digits}`), nonce };
      expect(() => paymentIdOf(key), nonce).to.throw(ConfigError);
    }
  });

  it("makes a payment's id as abi.encode does", () => {
    fc.assert(
      fc.property(count, address, address, anyCase(32), (chainId, token, payer, nonce) => {
        const words = abi.encode(["uint256", "address", "address", "bytes32"], [chainId, token, payer, nonce]);
        expect(paymentIdOf({ chainId, token, payer, nonce })).to.equal(keccak256(words));
      }),
    );
  });

  it("digests transfers of any terms as ethers does", () => {
    const terms = { from: address, to: address, value: uint, validAfter: uint, validBefore: uint, nonce: hexOf(32) };
    fc.assert(
      fc.property(count, address, text, fc.record(terms), (chainId, token, name, authorization) => {
        const data = transferTypedData({ chainId, token, name, version: "2" }, authorization);
        expect(typedDataDigest(data)).to.equal(
          TypedDataEncoder.hash(data.domain, mutableTypes(data.types), data.message),
        );
      }),
    );
  });

  it("digests proofs of any facts as ethers does", () => {
    const facts = {
      version: fc.constant("1" as const),
      network: text,
      token: address,
      payer: address,
      payTo: address,
      amount: uint,
      memo: text,
      resource: text,
      transaction: hexOf(32),
      blockNumber: count,
      settledAt: count,
      expiresAt: count,
      facilitator: address,
    };
    const fields =
      "string network,address token,address payer,address payTo,uint256 amount,string memo,bytes32 resourceHash,bytes32 transaction,uint256 blockNumber,uint256 settledAt,uint256 expiresAt,address facilitator";
    const types = {
      PaymentProof: fields.split(",").map((field) => {
        const [type = "", name = ""] = field.split(" ");
        return { type, name };
      }),
    };
    fc.assert(
      fc.property(fc.record(facts), count, (proof, chainId) => {
        const domain = { name: "Turnpike Payment Proof", version: "1", chainId, verifyingContract: proof.token };
        const { version: _, resource, ...rest } = proof;
        const message = { ...rest, resourceHash: keccak256(Buffer.from(resource)) };
        expect(proofDigest(proof, chainId)).to.equal(TypedDataEncoder.hash(domain, types, message));
      }),
    );
  });
});
