/** Signs, encodes and parses payment proofs, and recovers their signers. The gate decides whether a proof pays. */
import { type Address, checksum, sameAddress } from "./address";
import { aBigint, aNumber, aText, fieldsOf } from "./arguments";
import { BoundedMap } from "./bounded-map";
import { type RecoverSigner, recoverSigner, signDigest, type TypedDataField, typedDataDigest } from "./eip712";
import { InvalidPaymentProof } from "./errors";
import { type Hex, keccakText } from "./hex";
import { type PaymentProof, type PaymentProofWire, paymentProofSchema } from "./schemas";
import { decodeJsonHeader, encodeJsonHeader, type JsonObject } from "./strict-json";

/** How long after settlement a proof may be presented, seconds: 7 days. */
export const PROOF_LIFE_SEC = 7 * 24 * 60 * 60;

const PROOF_TYPES: { readonly PaymentProof: readonly TypedDataField[] } = {
  PaymentProof: [
    { name: "network", type: "string" },
    { name: "token", type: "address" },
    { name: "payer", type: "address" },
    { name: "payTo", type: "address" },
    { name: "amount", type: "uint256" },
    { name: "memo", type: "string" },
    { name: "resourceHash", type: "bytes32" },
    { name: "transaction", type: "bytes32" },
    { name: "blockNumber", type: "uint256" },
    { name: "settledAt", type: "uint256" },
    { name: "expiresAt", type: "uint256" },
    { name: "facilitator", type: "address" },
  ],
};

/** A proof before its Facilitator has signed it. */
export type UnsignedPaymentProof = Omit<PaymentProof, "signature">;

const hashes = new BoundedMap<string, Hex>(1_000);

/** Many proofs are of one resource. */
function hashOf(resource: string): Hex {
  const known = hashes.get(resource);
  if (known) return known;
  const hash = keccakText(resource);
  hashes.set(resource, hash);
  return hash;
}

/** What the Facilitator signs; `chainId` is that of the proof's network. */
export function proofDigest(proof: UnsignedPaymentProof, chainId: number): Hex {
  fieldsOf(proof, "proof");
  aNumber(chainId, "chainId");
  return typedDataDigest({
    domain: { name: "Turnpike Payment Proof", version: "1", chainId, verifyingContract: proof.token },
    primaryType: "PaymentProof",
    types: PROOF_TYPES,
    message: {
      network: proof.network,
      token: proof.token,
      payer: proof.payer,
      payTo: proof.payTo,
      amount: proof.amount,
      memo: proof.memo,
      resourceHash: hashOf(proof.resource),
      transaction: proof.transaction,
      blockNumber: proof.blockNumber,
      settledAt: proof.settledAt,
      expiresAt: proof.expiresAt,
      facilitator: proof.facilitator,
    },
  });
}

/** Pure: the same facts and key give the same bytes (RFC 6979). */
export function signProof(proof: UnsignedPaymentProof, chainId: number, privateKey: Hex): PaymentProof {
  return { ...proof, signature: signDigest(proofDigest(proof, chainId), privateKey) };
}

/** Returns whether the proof's `facilitator` signed it. Says nothing about whether that facilitator is trusted. */
export function isProofSignedBy(
  proof: PaymentProof,
  chainId: number,
  facilitator: Address,
  recover: RecoverSigner = recoverSigner,
): boolean {
  fieldsOf(proof, "proof");
  aNumber(chainId, "chainId");
  aText(facilitator, "facilitator");
  if (!sameAddress(proof.facilitator, facilitator)) return false;
  const signer = recover(proofDigest(proof, chainId), proof.signature);
  return signer !== undefined && signer === checksum(facilitator);
}

/** The value of `X-PAYMENT`. */
export function encodePaymentProof(proof: PaymentProof): string {
  return encodeJsonHeader(proofToWire(proof));
}

/** A proof as it is written: amounts as decimal strings. */
export function proofToWire(proof: PaymentProof): PaymentProofWire {
  fieldsOf(proof, "proof");
  aBigint(proof.amount, "proof.amount");
  return { ...proof, amount: proof.amount.toString() };
}

/**
 * Reads the value of an `X-PAYMENT` header.
 * @throws InvalidPaymentProof for anything that is not a well-formed proof object
 */
export function parsePaymentProof(headerValue: string): PaymentProof {
  const decoded = typeof headerValue === "string" ? decodeJsonHeader(headerValue) : undefined;
  if (!decoded) throw new InvalidPaymentProof("X-PAYMENT is not base64 of a JSON object", { reason: "malformed" });
  return readPaymentProof(decoded);
}

/**
 * The same, of an `X-PAYMENT` that was decoded already.
 * @throws InvalidPaymentProof
 */
export function readPaymentProof(decoded: JsonObject): PaymentProof {
  const result = paymentProofSchema.safeParse(decoded);
  if (!result.success) {
    const field = result.error.issues[0]?.path.join(".") || "proof";
    throw new InvalidPaymentProof(`X-PAYMENT is no payment proof: field ${field} is missing or malformed`, {
      reason: "malformed",
    });
  }
  return result.data;
}
