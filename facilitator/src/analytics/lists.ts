/** Payments and subscriptions of one provider, newest first, a page at a time. Cursors are positions, not offsets. */
import { type RawBuilder, sql } from "kysely";
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
  return newestOfPlans(db, { chainId, provider, planId, subscriber }, { after, limit }, sql``);
}

/** Rows of each plan that a look for the page's oldest row takes: the more, the fewer pages it finds none for. */
const GLANCE = 5;

/**
 * Each plan's newest by its index, and the newest of these: a provider's subscriptions are never sorted, however many they
 * are. First a glance at every plan for how old the page's last row is at most, then each plan's rows down to that.
 */
async function newestOfPlans(
  db: Db,
  { chainId, provider, planId, subscriber }: SubscriberFilter,
  { after, limit }: Page,
  also: RawBuilder<unknown>,
): Promise<SubscriptionsTable[]> {
  const where = sql`s.chain_id = p.chain_id and s.plan_id = p.plan_id and s.moved_to is null
    ${after ? sql`and (s.created_at, s.id_hash) < (${after.time}, ${after.id})` : sql``} ${also}`;
  const ofPlan = planId === undefined ? sql`` : sql`and plan_id = ${planId}`;
  const own = sql`own as materialized (select chain_id, plan_id from plans
    where chain_id = ${chainId} and provider = ${provider} ${ofPlan})`;
  if (subscriber !== undefined) {
    // One account has few subscriptions, and an index of them.
    const { rows } = await sql<SubscriptionsTable>`
      with ${own} select s.* from subscriptions s join own p on ${where}
      where s.subscriber = ${subscriber} order by s.created_at desc, s.id_hash desc limit ${limit}`.execute(db);
    return rows;
  }
  const { rows } = await sql<SubscriptionsTable>`
    with ${own}, oldest as materialized (
      select coalesce((select created_at from own p cross join lateral (
          select s.created_at from subscriptions s where ${where} order by s.created_at desc, s.id_hash desc
          limit ${GLANCE}) newest
        order by created_at desc offset ${limit - 1} limit 1), 0) as created_at),
    listed as (
      select newest.id_hash from own p cross join lateral (
        select s.id_hash, s.created_at from subscriptions s
        where ${where} and s.created_at >= (select created_at from oldest)
        order by s.created_at desc, s.id_hash desc limit ${limit}) newest
      order by newest.created_at desc, newest.id_hash desc limit ${limit})
    select s.* from listed join subscriptions s on s.chain_id = ${chainId} and s.id_hash = listed.id_hash
    order by s.created_at desc, s.id_hash desc`.execute(db);
  return rows;
}

/** Of subscriptions that may be charged for use, newest first. */
export async function listAllowances(db: Db, filter: SubscriberFilter, page: Page): Promise<SubscriptionsTable[]> {
  return newestOfPlans(
    db,
    filter,
    page,
    sql`and exists (select 1 from allowances a
    where a.chain_id = s.chain_id and a.id_hash = s.id_hash and a.cap > 0)`,
  );
}
