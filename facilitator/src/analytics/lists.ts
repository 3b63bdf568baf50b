/** Payments and subscriptions of one provider, newest first, a page at a time. Cursors are positions, not offsets. */
import { sql } from "kysely";
import type { Db } from "../store/open";
import type { PaymentRow, PaymentState } from "../store/tables/payments";
import type { SubscriptionsTable } from "../store/tables/subscriptions";

export interface Page {
  /** `time.id` of the last row seen; undefined: from the newest */
  readonly after: { readonly time: number; readonly id: string } | undefined;
  readonly limit: number;
}

export interface PaymentFilter {
  readonly chainId: number;
  readonly payTo: string;
  readonly payer?: string | undefined;
  readonly states?: readonly PaymentState[] | undefined;
}

export async function listPayments(db: Db, filter: PaymentFilter, { after, limit }: Page): Promise<PaymentRow[]> {
  let query = db
    .selectFrom("payments")
    .selectAll()
    .where("chain_id", "=", filter.chainId)
    .where("pay_to", "=", filter.payTo);
  if (filter.payer) query = query.where("payer", "=", filter.payer);
  if (filter.states) query = query.where("state", "in", [...filter.states]);
  if (after) query = query.where(sql<boolean>`(accepted_at_ms, payment_id) < (${after.time}, ${after.id})`);
  return query.orderBy("accepted_at_ms", "desc").orderBy("payment_id", "desc").limit(limit).execute();
}

export interface SubscriberFilter {
  readonly chainId: number;
  readonly provider: string;
  readonly planId?: string | undefined;
  readonly subscriber?: string | undefined;
}

/** Rekeyed records are left out: their successor tells the same story. */
export async function listSubscribers(
  db: Db,
  { chainId, provider, planId, subscriber }: SubscriberFilter,
  { after, limit }: Page,
): Promise<SubscriptionsTable[]> {
  let query = db
    .selectFrom("subscriptions as s")
    .selectAll("s")
    .where("s.chain_id", "=", chainId)
    .where("s.moved_to", "is", null)
    .where("s.plan_id", "in", (plans) =>
      plans.selectFrom("plans").select("plan_id").where("chain_id", "=", chainId).where("provider", "=", provider),
    );
  if (planId) query = query.where("s.plan_id", "=", planId);
  if (subscriber) query = query.where("s.subscriber", "=", subscriber);
  if (after) query = query.where(sql<boolean>`(s.created_at, s.id_hash) < (${after.time}, ${after.id})`);
  return query.orderBy("s.created_at", "desc").orderBy("s.id_hash", "desc").limit(limit).execute();
}
