import type { PaymentListWire, SubscriberListWire } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import type { PaymentRow } from "../db/tables/payments";
import { refundedSums } from "../payments/refunds";
import { recordsOf, subscriptionToWire } from "../subscriptions/records";
import { type ListQuery, listPayments, listSubscribers, type PaymentFilter } from "./lists";
import { type AnalyticsOptions, positionOf } from "./ranges";

export interface RecordLists {
  payments(provider: Address, query: ListQuery & Omit<PaymentFilter, "chainId" | "payTo">): Promise<PaymentListWire>;
  subscribers(
    provider: Address,
    query: ListQuery & { readonly planId?: Hex | undefined; readonly subscriber?: Address | undefined },
  ): Promise<SubscriberListWire>;
}

export function createRecordLists({ db, config, clock }: AnalyticsOptions): RecordLists {
  const { chainId } = config;
  return {
    async payments(provider, { cursor, limit, ...filter }) {
      const rows = await listPayments(
        db,
        { ...filter, chainId, payTo: provider },
        { after: positionOf(cursor), limit },
      );
      const ids = rows.map((row) => row.payment_id);
      const refunded = await refundedSums(db, chainId, ids);
      const last = rows.length === limit ? rows.at(-1) : undefined;
      return {
        payments: rows.map((row) => paymentToWire(row, refunded.get(row.payment_id))),
        ...(last && { next: `${last.accepted_at_ms}.${last.payment_id}` }),
      };
    },

    async subscribers(provider, { cursor, limit, planId, subscriber }) {
      const rows = await listSubscribers(
        db,
        { chainId, provider, planId, subscriber },
        { after: positionOf(cursor), limit },
      );
      const nowSec = clock.nowSec();
      const records = await recordsOf(db, chainId, rows);
      const last = rows.length === limit ? rows.at(-1) : undefined;
      return {
        subscriptions: records.map((record) => ({
          ...subscriptionToWire(record, config, nowSec),
          createdAt: record.row.created_at,
          token: record.plan.token,
        })),
        ...(last && { next: `${last.created_at}.${last.id_hash}` }),
      };
    },
  };
}

function paymentToWire(row: PaymentRow, refunded: bigint | undefined): PaymentListWire["payments"][number] {
  return {
    id: row.payment_id,
    token: row.token,
    payer: row.payer,
    amount: row.amount,
    resource: row.resource_shown,
    status: statusOf(row),
    acceptedAt: Math.floor(row.accepted_at_ms / 1_000),
    ...(row.state === "settled" && row.block_time !== null && { settledAt: row.block_time }),
    ...(row.tx_hash && { transaction: row.tx_hash }),
    ...(row.fail_code && { reason: row.fail_code }),
    ...(refunded !== undefined && { refunded: refunded.toString() }),
  };
}

export function statusOf({
  state,
  is_reversed: isReversed,
}: PaymentRow): PaymentListWire["payments"][number]["status"] {
  if (state === "settled" || state === "failed") return state;
  return isReversed ? "reversed" : "pending";
}
