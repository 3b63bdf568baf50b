/**
 * Signs and verifies grants: the Facilitator's signed statement that a settled x402 payment belongs to one purchase.
 * Authorizations are public in calldata, so a transfer alone does not say who bought what.
 */
import type { Address } from "./address";
import { aText, fieldsOf } from "./arguments";
import { type RecoverSigner, recoverSigner, signDigest, type TypedDataField, typedDataDigest } from "./eip712";
import type { Hex } from "./hex";

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
