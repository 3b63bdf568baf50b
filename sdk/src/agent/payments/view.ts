/** One payment of the ledger as callers see it. */
import { refundedAmount } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { type PaymentReceipt, receiptFor } from "./receipt";

/** One payment that the ledger knows, without its secrets. */
export interface PaymentView extends PaymentReceipt {
  readonly state: PaymentEntry["state"];
  /** when its budget was reserved, unix seconds */
  readonly atSec: number;
  /** credited to its budget by proven refunds, base units */
  readonly refunded: bigint;
}

export const viewOf = (entry: PaymentEntry): PaymentView => ({
  ...receiptFor(entry, false),
  state: entry.state,
  atSec: entry.atSec,
  refunded: refundedAmount(entry),
});
