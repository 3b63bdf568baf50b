/** Types, parties and payloads of the events of payments and of refunds, which are never each other's. */
import type { PaymentRow } from "../db/tables/payments";
import type { EventDraft } from "../events/event";
import type { RefundRecords } from "./refund-records";
import { paymentPayload } from "./rows";

export type TransferOutcome = "settled" | "failed" | "reversed" | "restored";

export const PAYMENT_EVENTS: Readonly<Record<TransferOutcome, string>> = {
  settled: "payment.settled",
  failed: "payment.failed",
  reversed: "payment.reversed",
  restored: "payment.restored",
};

export const REFUND_EVENTS: Readonly<Record<TransferOutcome, string>> = {
  settled: "refund.settled",
  failed: "refund.failed",
  reversed: "refund.reversed",
  restored: "refund.restored",
};

export const typesOf = (row: PaymentRow): Readonly<Record<TransferOutcome, string>> =>
  row.door === "refund" ? REFUND_EVENTS : PAYMENT_EVENTS;

/** The part of a transfer's event that its row decides. The subject of a refund's event is the refund itself. */
export function transferEvent(
  row: PaymentRow,
  outcome: TransferOutcome,
  refunds: RefundRecords,
): Pick<EventDraft, "type" | "objectId" | "provider" | "payer" | "payload"> {
  const type = typesOf(row)[outcome];
  if (row.door !== "refund") {
    return { type, objectId: row.payment_id, provider: row.pay_to, payer: row.payer, payload: paymentPayload(row) };
  }
  const record = refunds.of(row.payment_id);
  return {
    type,
    objectId: row.payment_id,
    provider: record?.provider ?? row.payer,
    payer: row.pay_to,
    payload: refundPayload(row, refunds),
  };
}

function refundPayload(row: PaymentRow, refunds: RefundRecords): Record<string, unknown> {
  const record = refunds.of(row.payment_id);
  const { paymentId: refundId, token, amount, payTo: payer, payer: account, ...payment } = paymentPayload(row);
  const { status, transaction, blockNumber, settledAt, reason } = payment;
  return {
    refundId,
    ...(record && {
      refundedId: record.refunded_id,
      kind: record.kind,
      ...(record.plan_id !== null && { planId: record.plan_id, idHash: record.id_hash }),
      index: record.refund_index,
      paid: record.paid,
      refunded: refunds.refundedOf(record).toString(),
    }),
    account,
    payer,
    token,
    amount,
    status,
    transaction,
    blockNumber,
    settledAt,
    ...(reason !== undefined && { reason }),
  };
}
