import { expect } from "chai";
import { Interface, Signature, Transaction } from "ethers";
import fc from "fast-check";
import {
  type Address,
  checksum,
  type Hex,
  keccak256,
  paymentIdOf,
  paymentNonce,
  proofDigest,
  signDigest,
  toHex,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { createAccountReads } from "../../../facilitator/src/chain/account-reads";
import {
  fastPaymentId,
  fastPaymentNonce,
  fastProofDigest,
  transferDigest,
} from "../../../facilitator/src/chain/digests";
import { keccakHex, keccakOfText } from "../../../facilitator/src/chain/keccak";
import type { ChainReader } from "../../../facilitator/src/relayer";
import { signRaw } from "../../../facilitator/src/relayer/raw-transaction";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";

const hexOf = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((b): Hex => `0x${Buffer.from(b).toString("hex")}`);
const address = hexOf(20).map((value): Address => checksum(value));
const uint = fc.bigInt(0n, 2n ** 256n - 1n);
const count = fc.integer({ min: 0, max: 2 ** 40 });
const text = fc.string({ minLength: 1, maxLength: 200, unit: "grapheme" });

describe("hand-made hashing and encoding", () => {
  it("hashes as the portable library does, at every length around a block", () => {
    for (const length of [0, 1, 31, 32, 135, 136, 137, 271, 272, 273, 30_000]) {
      const bytes = Buffer.alloc(length, length % 251);
      expect(keccakHex(bytes), String(length)).to.equal(keccak256(bytes));
    }
    expect(keccakOfText("Zürich €")).to.equal(keccak256(Buffer.from("Zürich €")));
  });

  it("makes a payment's id and nonce as the protocol does", () => {
    fc.assert(
      fc.property(count, address, address, hexOf(32), text, text, (chainId, token, payer, nonce, ref, resource) => {
        const key = { chainId, token, payer, nonce };
        expect(fastPaymentId(key)).to.equal(paymentIdOf(key));
        expect(fastPaymentNonce(ref, resource)).to.equal(paymentNonce(ref, resource));
      }),
    );
  });

  it("digests a transfer as the protocol does", () => {
    const authorization = fc.record({
      from: address,
      to: address,
      value: uint,
      validAfter: uint,
      validBefore: uint,
      nonce: hexOf(32),
    });
    fc.assert(
      fc.property(count, address, text, authorization, (chainId, token, name, signed) => {
        const domain = { chainId, token, name, version: "2" };
        expect(toHex(transferDigest(domain, signed))).to.equal(typedDataDigest(transferTypedData(domain, signed)));
      }),
    );
  });

  it("digests a proof as the protocol does", () => {
    const proof = fc.record({
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
    });
    fc.assert(
      fc.property(proof, count, (facts, chainId) => {
        expect(fastProofDigest(facts, chainId)).to.equal(proofDigest(facts, chainId));
      }),
    );
  });

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
          ...{
            chainId: wanted.chainId,
            nonce: wanted.nonce,
            to: wanted.to,
            data: wanted.data,
            gasLimit: wanted.gasLimit,
          },
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

describe("reading what a token knows of many payers", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  const calls = new Interface(["function balanceOf(address) view returns (uint256)"]);

  before(async () => {
    world = await startWorld();
    core = await world.core();
  });
  after(() => world.stop());

  it("answers for each as single calls do, in one question", async () => {
    const payers = await Promise.all([world.payer(1n), world.payer(0n), world.payer(2n ** 200n), world.payer(5n)]);
    const spent = await world.signPayment({ payer: await world.payer() });
    await core.payments.authorize(spent);
    const balanceAtBlock = core.indexer.applied();
    const queries = [
      ...payers.map(({ address: payer }) => ({
        token: world.contracts.token,
        payer,
        nonce: spent.authorization.nonce,
      })),
      { token: world.contracts.token, payer: spent.authorization.from, nonce: spent.authorization.nonce },
      { token: world.contracts.token, payer: world.contracts.turnpike, nonce: spent.authorization.nonce },
    ];
    let asked = 0;
    const call: ChainReader["call"] = (request) => {
      asked++;
      return core.relayer.chain.call(request);
    };
    const { facts: read } = createAccountReads({ ...core.relayer.chain, call });
    const facts = await Promise.all(queries.map((query) => read({ ...query, balanceAtBlock })));
    expect(asked, "one for the nonces, one for the balances").to.equal(2);
    for (const [place, { token, payer }] of queries.entries()) {
      const data = calls.encodeFunctionData("balanceOf", [payer]) as Hex;
      expect(facts[place]?.balance).to.equal(BigInt(await core.relayer.read({ to: token, data })));
    }
    expect(facts.map(({ isNonceUsed }) => isNonceUsed)).to.deep.equal([false, false, false, false, true, false]);
    expect(facts.map(({ hasCode }) => hasCode)).to.deep.equal([false, false, false, false, false, true]);
  });

  it("asks one by one where a node runs no creation calls, and takes no answer for an outage", async () => {
    const { chain } = core.relayer;
    const { address: payer } = await world.payer(7n);
    const query = { token: world.contracts.token, payer, nonce: `0x${"01".repeat(32)}` as Hex, balanceAtBlock: -1 };
    const refusing = createAccountReads({
      ...chain,
      call: async (request) => (request.to ? chain.call(request) : { kind: "reverted", data: "0x", message: "no" }),
    });
    expect(await refusing.facts(query)).to.deep.equal({ hasCode: false, isNonceUsed: false, balance: 7n });
    const silent = createAccountReads({ ...chain, call: async () => ({ kind: "ok", data: "0x" }) });
    const refused = await silent.facts(query).catch((error: unknown) => error);
    expect(refused).to.include({ code: "Unavailable" });
    const noToken = await refusing.facts({ ...query, token: payer }).catch((error: unknown) => error);
    expect(noToken, "no account without code is a token").to.include({ code: "Unavailable" });
  });
});
