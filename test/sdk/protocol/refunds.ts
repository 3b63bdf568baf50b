import { expect } from "chai";
import { AbiCoder, keccak256 } from "ethers";
import {
  type Address,
  chargeIdOf,
  debitIdOf,
  type Hex,
  paymentNonce,
  refundedIdOf,
  refundNonce,
} from "turnpike/protocol";

const DEPLOYMENT = { chainId: 8453, turnpike: "0x5FbDB2315678afecb367f032d93F642f64180aa3" as Address };
const ID_HASH: Hex = `0x${"a7".repeat(32)}`;

const hash = (types: string[], values: unknown[]): string =>
  keccak256(AbiCoder.defaultAbiCoder().encode(types, values));

describe("protocol > refunds", () => {
  it("names a debit as ethers hashes it", () => {
    for (const index of [0, 1, 70_000]) {
      const types = ["uint256", "address", "bytes32", "string", "uint256"];
      const expected = hash(types, [DEPLOYMENT.chainId, DEPLOYMENT.turnpike, ID_HASH, "debit", index]);
      expect(debitIdOf(DEPLOYMENT, { idHash: ID_HASH, index })).to.equal(expected);
    }
  });

  it("names a charge as ethers hashes it, with version and end apart", () => {
    const types = ["uint256", "address", "bytes32", "string", "uint256", "uint256"];
    const values = [DEPLOYMENT.chainId, DEPLOYMENT.turnpike, ID_HASH, "charge", 3, 1_900_000_000];
    expect(chargeIdOf(DEPLOYMENT, { idHash: ID_HASH, version: 3, paidThrough: 1_900_000_000 })).to.equal(
      hash(types, values),
    );
  });

  it("derives the nonce as ethers hashes it", () => {
    for (const index of [0, 1, 4_294_967_295]) {
      const expected = hash(["string", "bytes32", "uint256"], ["turnpike.refund", ID_HASH, index]);
      expect(refundNonce(ID_HASH, index)).to.equal(expected);
    }
  });

  it("T40 gives every target, deployment and index another nonce, and none is a payment's", () => {
    const targets = [
      { type: "payment", paymentId: ID_HASH },
      { type: "debit", idHash: ID_HASH, index: 0 },
      { type: "debit", idHash: ID_HASH, index: 1 },
      { type: "charge", idHash: ID_HASH, version: 0, paidThrough: 1 },
      { type: "charge", idHash: ID_HASH, version: 1, paidThrough: 0 },
    ] as const;
    const ids = [DEPLOYMENT, { ...DEPLOYMENT, chainId: 1 }].flatMap((deployment) =>
      targets.map((target) => refundedIdOf(deployment, target)),
    );
    // A paymentId holds chain and token already.
    expect(new Set(ids).size).to.equal(ids.length - 1);
    const nonces = [...new Set(ids)].flatMap((id) => [refundNonce(id, 0), refundNonce(id, 1)]);
    nonces.push(paymentNonce("turnpike.refund", ID_HASH));
    expect(new Set(nonces).size).to.equal(nonces.length);
  });
});
