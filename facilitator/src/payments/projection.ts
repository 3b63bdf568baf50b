/** Applies a used or cancelled authorization, or the end of its window, to a payment. Pure. */
import { type Hex, keccakText } from "turnpike/protocol";
import type { AuthorizationUsed } from "../chain/facts";
import type { PaymentRow, PaymentState } from "../db/tables/payments";
import { chainEventId, type EventDraft } from "../events/event";
import { type BlockInput, type BlockRules, type RowSet, whereOf } from "../events/projection";
import type { RefundRecords } from "./refund-records";
import { type TransferOutcome, transferEvent, typesOf } from "./transfer-events";

export interface BlockTransfers {
  readonly payments: RowSet<PaymentRow>;
  readonly refunds: RefundRecords;
}

export const paymentRules = (input: BlockInput, transfers: BlockTransfers): BlockRules => ({
  apply(fact, events) {
    if (fact.kind === "authorizationUsed") applyUsed(input, transfers, fact, events);
    else if (fact.kind === "authorizationCanceled") {
      const { paymentId, logIndex, transaction } = fact;
      failPayment(input, transfers, paymentId, { reason: "cancelled", logIndex, transaction }, events);
    }
  },
  expire: (paymentId, events) => failPayment(input, transfers, paymentId, { reason: "expired" }, events),
});

function applyUsed(input: BlockInput, transfers: BlockTransfers, fact: AuthorizationUsed, events: EventDraft[]): void {
  const { payments, refunds } = transfers;
  const payment = payments.get(fact.paymentId);
  if (!payment || payment.state === "settled" || payment.state === "waived") return;
  const { transfer } = fact;
  // A Paxos-style token shows that nothing moved by emitting no transfer. Nothing is proved then, and nothing is final.
  if (!transfer) return;
  if (transfer.to !== payment.pay_to || transfer.amount !== BigInt(payment.amount)) {
    failPayment(
      input,
      transfers,
      fact.paymentId,
      { reason: "nonce_spent_elsewhere", logIndex: fact.logIndex, transaction: fact.transaction },
      events,
    );
    return;
  }
  if (payment.door === "settle" && input.block.number <= payment.accepted_block) {
    failPayment(
      input,
      transfers,
      fact.paymentId,
      { reason: "settled_before_acceptance", logIndex: fact.logIndex, transaction: fact.transaction },
      events,
    );
    return;
  }
  const settled: PaymentRow = {
    ...payment,
    state: "settled",
    fail_code: null,
    fail_reason: null,
    is_reversed: false,
    tx_hash: fact.transaction,
    block_number: input.block.number,
    block_hash: input.block.hash,
    block_time: input.block.timestampSec,
    log_index: transfer.logIndex,
  };
  payments.put(fact.paymentId, settled);
  refunds.settled(settled);
  events.push(eventOf(input, { row: settled, outcome: "settled", refunds }, transfer.logIndex, fact.transaction));
}

/** The states of a payment without an outcome; a waived one has its own, whatever its nonce is used for. */
const LIVE: ReadonlySet<PaymentState> = new Set(["queued", "sent", "parked"]);

interface Failure {
  readonly reason: "cancelled" | "expired" | "nonce_spent_elsewhere" | "settled_before_acceptance";
  readonly logIndex?: number;
  readonly transaction?: Hex;
}

function failPayment(
  input: BlockInput,
  { payments, refunds }: BlockTransfers,
  paymentId: Hex,
  failure: Failure,
  events: EventDraft[],
): void {
  const payment = payments.get(paymentId);
  if (!payment || !LIVE.has(payment.state)) return;
  const failed: PaymentRow = {
    ...payment,
    state: "failed",
    fail_code: failure.reason === "expired" ? "PaymentExpired" : "PaymentNotAllowed",
    fail_reason: failure.reason,
    is_reversed: false,
    block_number: input.block.number,
    block_hash: input.block.hash,
    block_time: input.block.timestampSec,
    tx_hash: failure.transaction ?? null,
    log_index: failure.logIndex ?? null,
  };
  payments.put(paymentId, failed);
  events.push(eventOf(input, { row: failed, outcome: "failed", refunds }, failure.logIndex, failure.transaction));
}

interface Happened {
  readonly row: PaymentRow;
  readonly outcome: TransferOutcome;
  readonly refunds: RefundRecords;
}

function eventOf(
  input: BlockInput,
  { row, outcome, refunds }: Happened,
  logIndex: number | undefined,
  transaction: Hex | undefined,
): EventDraft {
  const type = typesOf(row)[outcome];
  const id =
    logIndex === undefined
      ? keccakText(`${input.chainId}/${row.payment_id}/${type}/${row.valid_before}`)
      : chainEventId(input.chainId, input.block.hash, logIndex, type);
  return {
    id,
    ...transferEvent(row, outcome, refunds),
    ...whereOf(input),
    ...(logIndex !== undefined && { logIndex }),
    transaction,
  };
}
