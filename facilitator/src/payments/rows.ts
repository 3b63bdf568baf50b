import type { PaymentRow } from "../db/tables/payments";

export function paymentPayload(payment: PaymentRow): Record<string, unknown> {
  return {
    paymentId: payment.payment_id,
    door: payment.door,
    token: payment.token,
    payer: payment.payer,
    payTo: payment.pay_to,
    amount: payment.amount,
    resource: payment.resource_shown,
    status: payment.state === "settled" || payment.state === "failed" ? payment.state : "pending",
    transaction: payment.tx_hash,
    blockNumber: payment.block_number,
    settledAt: payment.state === "settled" ? payment.block_time : null,
    ...(payment.fail_code && { reason: payment.fail_code }),
  };
}

/** Columns that the chain decides, while it has decided nothing. */
export const UNMINED = {
  fail_code: null,
  fail_reason: null,
  tx_hash: null,
  block_number: null,
  block_hash: null,
  block_time: null,
  log_index: null,
} as const;
