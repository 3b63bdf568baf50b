/**
 * Signs and verifies what a Facilitator states of a settled payment, and decides whose signature counts. A proof is what a
 * payer presents; the gate decides whether it pays. A grant says that a settled x402 payment belongs to one purchase:
 * authorizations are public in calldata, so a transfer alone does not say who bought what.
 */
import { type Address, checksum, isAddress, sameAddress } from "./address";
import { aBigint, aList, aNumber, aText, fieldsOf, type JsonObject } from "./arguments";
import { BoundedMap } from "./bounded-map";
import { type RecoverSigner, recoverSigner, signDigest, type TypedDataField, typedDataDigest } from "./eip712";
import { InvalidPaymentProof } from "./errors";
import { decodeJsonHeader, encodeJsonHeader } from "./headers";
import { type Hex, keccakText } from "./hex";
import { type PaymentProof, type PaymentProofWire, paymentProofSchema } from "./schemas";

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

const GRANT_TYPES: { readonly PaymentGrant: readonly TypedDataField[] } = {
  PaymentGrant: [
    { name: "paymentId", type: "bytes32" },
    { name: "resourceHash", type: "bytes32" },
    { name: "payTo", type: "address" },
    { name: "amount", type: "uint256" },
    { name: "transaction", type: "bytes32" },
    { name: "grantId", type: "bytes32" },
    { name: "facilitator", type: "address" },
  ],
};

/** What a grant names as its transaction where an `upto` payment was charged nothing. */
export const NO_TRANSACTION: Hex = `0x${"0".repeat(64)}`;

/** What a Facilitator states when it grants a payment; every field but `transaction` is the gate's own. */
export interface PaymentGrant {
  readonly chainId: number;
  readonly token: Address;
  readonly paymentId: Hex;
  /** keccak256 of the URL that the payment buys, as the gate names it */
  readonly resourceHash: Hex;
  readonly payTo: Address;
  /** base units */
  readonly amount: bigint;
  /** the transaction that moved the money; NO_TRANSACTION where none did */
  readonly transaction: Hex;
  /** 32 bytes that only the gate's claim store can produce */
  readonly grantId: Hex;
  /** the signer's address */
  readonly facilitator: Address;
}

/** Returns the EIP-712 digest that the Facilitator signs. */
export function grantDigest(grant: PaymentGrant): Hex {
  fieldsOf(grant, "grant");
  const { chainId, token, ...message } = grant;
  return typedDataDigest({
    domain: { name: "Turnpike Payment Grant", version: "1", chainId, verifyingContract: token },
    primaryType: "PaymentGrant",
    types: GRANT_TYPES,
    message,
  });
}

/** Signs a grant; pure: the same facts and key give the same bytes (RFC 6979). */
export function signGrant(grant: PaymentGrant, privateKey: Hex): Hex {
  return signDigest(grantDigest(grant), privateKey);
}

/** Returns whether the grant's `facilitator` signed it. The gate decides whether it trusts that Facilitator. */
export function isGrantSigned(grant: PaymentGrant, signature: Hex, recover: RecoverSigner = recoverSigner): boolean {
  fieldsOf(grant, "grant");
  aText(signature, "signature");
  return recover(grantDigest(grant), signature) === grant.facilitator;
}

/** A signer of payment proofs. */
export interface ProofSigner {
  readonly address: Address;
  /** unix seconds: it counts only for payments that settled before; absent: for all */
  readonly until?: number;
}

/** The signers that a judge accepts. */
export interface TrustedSigners {
  readonly list: readonly ProofSigner[];
  /** @returns undefined for an address that is not accepted at all */
  find(address: Address): ProofSigner | undefined;
  /**
   * Returns whether its statement about a payment counts.
   * @param settledAtSec block time of the payment as the judge's own chain or database has it, never as the statement
   * says
   */
  isTrustedSigner(address: Address, settledAtSec: number): boolean;
}

/** A set to judge by. The first of several entries for one address counts. */
export function trustSigners(signers: readonly ProofSigner[]): TrustedSigners {
  aList(signers, "signers");
  for (const signer of signers) fieldsOf(signer, "signers");
  const byAddress = new Map([...signers].reverse().map((signer) => [checksum(signer.address), signer]));
  const find = (address: Address) => byAddress.get(checksum(address));
  return {
    list: signers,
    find,
    isTrustedSigner(address, settledAtSec) {
      const signer = find(address);
      return signer !== undefined && (signer.until === undefined || settledAtSec < signer.until);
    },
  };
}

/** Of an instant that everyone reads the same: with its zone, and not with a day alone. */
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

const SECONDS = /^\d{1,11}$/;

/** Unix seconds of a time that is written as such or in ISO 8601 with its zone. */
export function parseInstant(text: string): number | undefined {
  aText(text, "text");
  if (SECONDS.test(text)) return Number(text);
  const ms = INSTANT.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1_000);
}

/**
 * Reads `0x...` or `0x...@TIME`, where TIME is the end of its validity.
 * @returns undefined for anything else
 */
export function parseProofSigner(text: string): ProofSigner | undefined {
  aText(text, "text");
  const [given = "", time, ...more] = text.split("@");
  if (!isAddress(given) || more.length > 0) return undefined;
  const address = checksum(given);
  if (time === undefined) return { address };
  const until = parseInstant(time);
  return until === undefined ? undefined : { address, until };
}
