/**
 * Defines where an agent keeps the usage receipts of its subscriptions, and keeps them in memory. Receipts are evidence
 * and no secrets: one that is lost shows as a gap in an audit, and costs nothing.
 */
import type { Address, Hex } from "../../protocol";

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
