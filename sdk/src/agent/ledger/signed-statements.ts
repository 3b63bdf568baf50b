/** Defines how the ledger keeps what a provider has signed about a payment, with the agent's judgement of it. */
import * as z from "zod";
import {
  type OfferPayload,
  offerPayloadSchema,
  type ReceiptPayload,
  receiptPayloadSchema,
  type SignedOffer,
  type SignedReceipt,
  signedOfferSchema,
  signedReceiptSchema,
} from "../../protocol";

const STATEMENT_FAULTS = [
  ...["malformed", "key", "signature", "replayed"],
  ...["resource", "scheme", "network", "token", "payTo", "amount", "payer", "transaction", "time"],
] as const;

/**
 * Why a signed offer or receipt is no evidence of the payment. `malformed`, `key` (not contained in the signature's
 * `kid`) and `signature` concern the signature; `replayed` is a receipt of another payment; each other word is the field
 * that contradicts.
 */
export type StatementFault = (typeof STATEMENT_FAULTS)[number];

interface Judgement {
  /** an address, or the DID of a key; absent where the signature was not verified */
  readonly signer?: string | undefined;
  /** why the signer counts: it is the payee, or named in `policy.receiptSigners`; absent: it is a stranger */
  readonly trustedBy?: "payTo" | "policy" | undefined;
  /** absent: the signature is valid, and nothing contradicts the payment */
  readonly fault?: StatementFault | undefined;
}

/** Terms that a provider has signed, and what the agent found. */
export interface JudgedOffer extends Judgement {
  /** as it came: evidence for others */
  readonly signed?: SignedOffer | undefined;
  readonly payload?: OfferPayload | undefined;
}

/** A provider's receipt for a request that was paid and served, and what the agent found. */
export interface JudgedReceipt extends Judgement {
  /** as it came: evidence for others; absent where it was malformed */
  readonly signed?: SignedReceipt | undefined;
  readonly payload?: ReceiptPayload | undefined;
}

const judgement = {
  signer: z.string().optional(),
  trustedBy: z.enum(["payTo", "policy"]).optional(),
  fault: z.enum(STATEMENT_FAULTS).optional(),
};

export const judgedOfferSchema = z.object({
  ...judgement,
  signed: signedOfferSchema.optional(),
  payload: offerPayloadSchema.optional(),
}) satisfies z.ZodType<JudgedOffer>;

export const judgedReceiptSchema = z.object({
  ...judgement,
  signed: signedReceiptSchema.optional(),
  payload: receiptPayloadSchema.optional(),
}) satisfies z.ZodType<JudgedReceipt>;
