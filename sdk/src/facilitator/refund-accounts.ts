/** Accounts that automatic refunds are paid from: what a provider signs to name one, and the wire bodies. */
import * as z from "zod";
import {
  type Address,
  addressSchema,
  amountSchema,
  type Hex,
  signatureSchema,
  type TypedData,
  typedDataDigest,
} from "../protocol";
import { fieldsOf } from "../protocol/arguments";

const unixSec = z.number().int().nonnegative();

/** What the statement says beside its provider, chain and Facilitator. */
const namedAccount = {
  /** pays the refunds; this Facilitator has its key */
  account: addressSchema,
  token: addressSchema,
  /** the most that is refunded automatically within 24 hours, base units */
  dailyCap: amountSchema,
  /** a later statement about the same token has a higher one */
  version: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  /** unix seconds; from then on nothing is refunded from the account */
  expiresAt: unixSec,
};

export const nameRefundAccountSchema = z.object({
  /** the payee whose payments are refunded: a key or a contract with ERC-1271 */
  provider: addressSchema,
  ...namedAccount,
  signature: signatureSchema,
});

export type NameRefundAccount = z.output<typeof nameRefundAccountSchema>;

export type NameRefundAccountWire = z.input<typeof nameRefundAccountSchema>;

export const refundAccountSchema = z.object({
  ...namedAccount,
  /** unix seconds */
  namedAt: unixSec,
  /** unix seconds; nothing is refunded from the account since */
  revokedAt: unixSec.optional(),
  /** what the automatic refunds of the last 24 hours took of the cap, base units */
  used: amountSchema,
});

/** The account that pays a provider's automatic refunds in one token. */
export type RefundAccount = z.output<typeof refundAccountSchema>;

export const refundAccountListSchema = z.object({
  /** the account whose key this Facilitator has for the provider; absent: nothing can be refunded automatically */
  account: addressSchema.optional(),
  accounts: z.array(refundAccountSchema),
});

export type RefundAccountList = z.output<typeof refundAccountListSchema>;

/** The provider's statement about the account of an automatic refund, by which agents know it. */
export const refundNamingSchema = z.object({
  ...namedAccount,
  /** the proof signer of the Facilitator that the statement was made to */
  facilitator: addressSchema,
  signature: signatureSchema,
});

export type RefundNaming = z.output<typeof refundNamingSchema>;

/** What a provider signs to name the account of its automatic refunds. */
export interface RefundAccountTerms {
  readonly provider: Address;
  /** the address that signs the Facilitator's payment proofs */
  readonly facilitator: Address;
  readonly account: Address;
  readonly token: Address;
  /** base units */
  readonly dailyCap: bigint;
  readonly version: number;
  /** unix seconds */
  readonly expiresAt: number;
  readonly chainId: number;
}

const FIELDS = [
  { name: "provider", type: "address" },
  { name: "facilitator", type: "address" },
  { name: "account", type: "address" },
  { name: "token", type: "address" },
  { name: "dailyCap", type: "uint256" },
  { name: "version", type: "uint256" },
  { name: "expiresAt", type: "uint256" },
] as const;

/** What the provider's wallet signs. Its domain and type are unique: the signature is valid for nothing else. */
export function refundAccountTypedData(terms: RefundAccountTerms): TypedData {
  const { chainId, ...message } = fieldsOf(terms, "terms");
  const { provider, facilitator, account, token, dailyCap, version, expiresAt } = message;
  return {
    domain: { name: "Turnpike Refund Account", version: "1", chainId },
    primaryType: "RefundAccount",
    types: { RefundAccount: FIELDS },
    message: { provider, facilitator, account, token, dailyCap, version, expiresAt },
  };
}

/** The digest of {@link refundAccountTypedData}. */
export const refundAccountDigest = (terms: RefundAccountTerms): Hex => typedDataDigest(refundAccountTypedData(terms));
