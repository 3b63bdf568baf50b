/** Applies a used or cancelled authorization, or the end of its window, to a payment. Pure. */
import { type Hex, keccakText } from "turnpike/protocol";
import type { AuthorizationUsed } from "../chain/facts";
import type { PaymentRow } from "../db/tables/payments";
import { chainEventId, type EventDraft } from "../events/event";
import { type BlockInput, type BlockRules, type RowSet, whereOf } from "../events/projection";
import { paymentPayload } from "./rows";

export const paymentRules = (input: BlockInput, payments: RowSet<PaymentRow>): BlockRules => ({
  apply(fact, events) {
    if (fact.kind === "authorizationUsed") applyUsed(input, payments, fact, events);
    else if (fact.kind === "authorizationCanceled") {
      const { paymentId, logIndex, transaction } = fact;
      failPayment(input, payments, paymentId, { reason: "cancelled", logIndex, transaction }, events);
    }
  },
  expire: (paymentId, events) => failPayment(input, payments, paymentId, { reason: "expired" }, events),
});

function applyUsed(
  input: BlockInput,
  payments: RowSet<PaymentRow>,
  fact: AuthorizationUsed,
  events: EventDraft[],
): void {
  const payment = payments.get(fact.paymentId);
  if (!payment || payment.state === "settled") return;
  const { transfer } = fact;
  // A Paxos-style token shows that nothing moved by emitting no transfer. Nothing is proved then, and nothing is final.
  if (!transfer) return;
  if (transfer.to !== payment.pay_to || transfer.amount !== BigInt(payment.amount)) {
    failPayment(
      input,
      payments,
      fact.paymentId,
      { reason: "nonce_spent_elsewhere", logIndex: fact.logIndex, transaction: fact.transaction },
      events,
    );
    return;
  }
  if (payment.door === "settle" && input.block.number <= payment.accepted_block) {
    failPayment(
      input,
      payments,
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
  events.push(paymentEvent(input, settled, "payment.settled", transfer.logIndex, fact.transaction));
}

interface Failure {
  readonly reason: "cancelled" | "expired" | "nonce_spent_elsewhere" | "settled_before_acceptance";
  readonly logIndex?: number;
  readonly transaction?: Hex;
}

function failPayment(
  input: BlockInput,
  payments: RowSet<PaymentRow>,
  paymentId: Hex,
  failure: Failure,
  events: EventDraft[],
): void {
  const payment = payments.get(paymentId);
  if (!payment || payment.state === "settled" || payment.state === "failed") return;
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
  events.push(paymentEvent(input, failed, "payment.failed", failure.logIndex, failure.transaction));
}

function paymentEvent(
  input: BlockInput,
  payment: PaymentRow,
  type: string,
  logIndex: number | undefined,
  transaction: Hex | undefined,
): EventDraft {
  const id =
    logIndex === undefined
      ? keccakText(`${input.chainId}/${payment.payment_id}/${type}/${payment.valid_before}`)
      : chainEventId(input.chainId, input.block.hash, logIndex, type);
  return {
    id,
    type,
    objectId: payment.payment_id,
    provider: payment.pay_to,
    payer: payment.payer,
    payload: paymentPayload(payment),
    ...whereOf(input),
    ...(logIndex !== undefined && { logIndex }),
    transaction,
  };
}
