/**
 * Defines how an agent keeps what providers have signed: the usage receipts of its subscriptions, and the offers and receipts
 * of its payments with its own judgement of them. Usage receipts are evidence and no secrets: one that is lost shows as a gap
 * in an audit, and costs nothing.
 */
import * as z from "zod";
import {
  type Address,
  type Hex,
  type OfferPayload,
  offerPayloadSchema,
  type ReceiptPayload,
  receiptPayloadSchema,
  type SignedOffer,
  type SignedReceipt,
  signedOfferSchema,
  signedReceiptSchema,
} from "../../protocol";

/**
 * Why a receipt is no evidence of a charge: `malformed`, `subscription`: of another one, `request`: of another request
 * than the one that was answered.
 */
export type ReceiptFault = "malformed" | "subscription" | "request";

/** A receipt as it came, with what contradicts it. */
export interface KeptReceipt {
  readonly chainId: number;
  readonly turnpike: Address;
  /** of the subscription that was used */
  readonly idHash: Hex;
  readonly text: string;
  readonly fault?: ReceiptFault | undefined;
}

/** Where receipts are kept. */
export interface ReceiptStore {
  /** Keeps receipts; those that it has already are kept once. */
  add(receipts: readonly KeptReceipt[]): Promise<void>;
  /** Returns what is kept of one subscription, in the order in which it came. */
  list(subscription: Pick<KeptReceipt, "chainId" | "turnpike" | "idHash">): Promise<readonly KeptReceipt[]>;
}

/** The most receipts that memory holds of one subscription; then the oldest are dropped. */
const MAX_IN_MEMORY = 100_000;

/** Keeps receipts until the process ends. */
export function memoryReceipts(): ReceiptStore {
  const kept = new Map<string, Map<string, KeptReceipt>>();
  return {
    async add(receipts) {
      for (const receipt of receipts) {
        const name = nameOfReceipts(receipt);
        const known = kept.get(name) ?? new Map<string, KeptReceipt>();
        kept.set(name, known);
        if (!known.has(receipt.text)) known.set(receipt.text, receipt);
        const [oldest] = known.keys();
        if (known.size > MAX_IN_MEMORY && oldest !== undefined) known.delete(oldest);
      }
    },
    list: async (subscription) => [...(kept.get(nameOfReceipts(subscription))?.values() ?? [])],
  };
}

/** Names the receipts of one subscription, as a file can be called. */
export const nameOfReceipts = ({ chainId, turnpike, idHash }: Omit<KeptReceipt, "text" | "fault">): string =>
  `${chainId}-${turnpike.toLowerCase()}-${idHash.toLowerCase()}`;

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
