/**
 * Numbers the usage receipts of a subscription's cycle, and sums what they charge. Pure: a store changes the count in
 * the same durable step as the charge, so that no two receipts have one number.
 */
import type { AllowanceFacts } from "../../chain/debit-sender";

/** The last receipt of a subscription; a cycle is named by the record's version and its end. */
export interface ReceiptCount {
  readonly version: number;
  /** unix seconds */
  readonly paidThrough: number;
  /** receipts in this cycle */
  readonly sequence: number;
  /** base units that they charge */
  readonly total: bigint;
}

/**
 * Counts one more charge. A gate whose view of the chain is old counts in the newest cycle that any gate has seen: a
 * cycle that was left is not continued.
 */
export function nextReceipt(
  last: ReceiptCount | undefined,
  { version, paidThroughSec: paidThrough }: Pick<AllowanceFacts, "version" | "paidThroughSec">,
  amount: bigint,
): ReceiptCount {
  if (last === undefined || isLater({ version, paidThrough }, last)) {
    return { version, paidThrough, sequence: 1, total: amount };
  }
  return { ...last, sequence: last.sequence + 1, total: last.total + amount };
}

type Cycle = Pick<ReceiptCount, "version" | "paidThrough">;

/** A subscriber's acts raise the version, renewals move the end forward: cycles of one record are ordered by both. */
const isLater = (one: Cycle, other: Cycle): boolean =>
  one.version > other.version || (one.version === other.version && one.paidThrough > other.paidThrough);
