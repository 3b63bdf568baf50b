/**
 * Lists one provider's payments and subscriptions, newest first, one page at a time. Cursors are positions, not
 * offsets.
 */
import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/open";
import { idList } from "../db/sql";
import type { PaymentRow } from "../db/tables/payments";
import type { SubscriptionRow } from "../subscriptions/rows";
import { CHARGES, type Charge } from "./charges";

export interface ListQuery {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

export interface Page {
  /** `time.id` of the last row read; undefined: from the newest */
  readonly after: { readonly time: number; readonly id: string } | undefined;
  readonly limit: number;
}

export type ListedState = "pending" | "settled" | "failed";

/** Filters by what was bought: its origin and path, or its path alone. */
export function ofRoute(column: RawBuilder<unknown>, route: string | undefined): RawBuilder<unknown> {
  if (route === undefined) return sql``;
  return route.startsWith("/")
    ? sql`and regexp_replace(${column}, '^[a-z]+://[^/]*', '') = ${route}`
    : sql`and ${column} = ${route}`;
}

export interface PaymentFilter {
  readonly chainId: number;
  readonly payTo: string;
  readonly payer?: string | undefined;
  readonly status?: ListedState | undefined;
  readonly route?: string | undefined;
  /** unix seconds, inclusive */
  readonly from?: number | undefined;
  /** unix seconds, exclusive */
  readonly to?: number | undefined;
  readonly sort?: "newest" | "oldest" | undefined;
}

const FAILED = sql<boolean>`state = 'failed'`;

const SETTLED = sql<boolean>`state = 'settled'`;

/** The final states of a payment; the list indexes contain only these. */
const DONE = sql<boolean>`state in ('settled', 'failed')`;

/** The pending payments, which are few: one index finds all of them. */
export const UNDER_WAY = sql<boolean>`state in ('queued', 'sent', 'parked')`;

export async function listPayments(db: Db, filter: PaymentFilter, { after, limit }: Page): Promise<PaymentRow[]> {
  // The index has a hash of both accounts.
  const parties = sql`hashtextextended(${filter.payTo}::text || ${filter.payer ?? ""}::text, 0)`;
  const [behind, order] = filter.sort === "oldest" ? [sql`>`, sql`asc`] : [sql`<`, sql`desc`];
  const part = (state: RawBuilder<boolean>) => sql`(select * from payments p
    where chain_id = ${filter.chainId} and pay_to = ${filter.payTo} and p.door <> 'refund' and ${state}
      ${filter.payer ? sql`and payer = ${filter.payer} and hashtextextended(pay_to || payer, 0) = ${parties}` : sql``}
      ${ofRoute(sql`resource_shown`, filter.route)}
      ${filter.from === undefined ? sql`` : sql`and accepted_at_ms >= ${filter.from}::bigint * 1000`}
      ${filter.to === undefined ? sql`` : sql`and accepted_at_ms < ${filter.to}::bigint * 1000`}
      ${after ? sql`and (accepted_at_ms, payment_id) ${behind} (${after.time}, ${after.id})` : sql``}
    order by accepted_at_ms ${order}, payment_id ${order} limit ${limit})`;
  const states = { pending: [UNDER_WAY], settled: [SETTLED], failed: [FAILED] };
  const { rows } = await sql<PaymentRow>`
    select * from (${sql.join((filter.status ? states[filter.status] : [DONE, UNDER_WAY]).map(part), sql` union all `)}) p
    order by accepted_at_ms ${order}, payment_id ${order} limit ${limit}`.execute(db);
  return rows;
}

export interface SubscriberFilter {
  readonly chainId: number;
  readonly provider: string;
  readonly planId?: string | undefined;
  readonly subscriber?: string | undefined;
}

/** Rekeyed records are left out: their successor has the same history. */
export async function listSubscribers(db: Db, filter: SubscriberFilter, page: Page): Promise<SubscriptionRow[]> {
  return rowsOf(db, filter.chainId, await newestOfPlans(db, filter, page));
}

/** More subscriptions are read than wanted, since not all have an allowance: this many times more with each read. */
const READ_FACTOR = 4;

const MAX_READ = 40_000;

/** Lists subscriptions that may be charged for use, newest first. */
export async function listAllowances(
  db: Db,
  filter: SubscriberFilter,
  { after, limit }: Page,
): Promise<SubscriptionRow[]> {
  const found: Place[] = [];
  for (let place = after, count = limit * READ_FACTOR; ; count = Math.min(count * READ_FACTOR, MAX_READ)) {
    const places = await newestOfPlans(db, filter, { after: place, limit: count });
    const { rows } = await sql<{ id_hash: string }>`select id_hash from allowances where chain_id = ${filter.chainId}
      and id_hash = any(${idsOf(places)}) and cap > 0`.execute(db);
    const charged = new Set(rows.map(({ id_hash }) => id_hash));
    found.push(...places.filter(({ id }) => charged.has(id)));
    place = places.at(-1);
    if (found.length >= limit || places.length < count) return rowsOf(db, filter.chainId, found.slice(0, limit));
  }
}

type Place = NonNullable<Page["after"]>;

/** Rows of each plan in the first read: a larger number leaves fewer pages without a bound on their age. */
const FIRST_READ_ROWS = 5;

/**
 * Merges the newest rows of each plan's index. This avoids sorting a provider's subscriptions, however many there are,
 * also for an account that has very many. A first read over every plan bounds the age of the page's last row. A second
 * read takes each plan's rows down to that bound.
 */
async function newestOfPlans(
  db: Db,
  { chainId, provider, planId, subscriber }: SubscriberFilter,
  { after, limit }: Page,
): Promise<Place[]> {
  const where = sql`s.chain_id = p.chain_id and s.plan_id = p.plan_id and s.moved_to is null
    ${subscriber === undefined ? sql`` : sql`and s.subscriber = ${subscriber}`}
    ${after ? sql`and (s.created_at, s.id_hash) < (${after.time}, ${after.id})` : sql``}`;
  const ofPlan = planId === undefined ? sql`` : sql`and plan_id = ${planId}`;
  const { rows } = await sql<Place>`
    with own as materialized (select chain_id, plan_id from plans
      where chain_id = ${chainId} and provider = ${provider} ${ofPlan}),
    oldest as materialized (
      select coalesce((select created_at from own p cross join lateral (
          select s.created_at from subscriptions s where ${where} order by s.created_at desc, s.id_hash desc
          limit ${FIRST_READ_ROWS}) newest
        order by created_at desc offset ${limit - 1} limit 1), 0) as created_at)
    select newest.id_hash as id, newest.created_at as time from own p cross join lateral (
      select s.id_hash, s.created_at from subscriptions s
      where ${where} and s.created_at >= (select created_at from oldest)
      order by s.created_at desc, s.id_hash desc limit ${limit}) newest
    order by newest.created_at desc, newest.id_hash desc limit ${limit}`.execute(db);
  return rows;
}

async function rowsOf(db: Db, chainId: number, places: readonly Place[]): Promise<SubscriptionRow[]> {
  const { rows } = await sql<SubscriptionRow>`select * from subscriptions where chain_id = ${chainId}
    and id_hash = any(${idsOf(places)}) order by created_at desc, id_hash desc`.execute(db);
  return rows;
}

const idsOf = (places: readonly Place[]) => idList(places.map(({ id }) => id));

export interface ChargeFilter {
  readonly chainId: number;
  /** undefined: every provider */
  readonly provider?: string;
  readonly payer: string;
  /** undefined: every token */
  readonly token?: string;
}

export interface ChargeRow extends Charge {
  readonly seq: number;
  readonly id: string;
  readonly block_time: number;
  readonly transaction: string | null;
  readonly provider: string;
  readonly token: string;
  readonly plan_id: string;
}

/** Lists what a payer's subscriptions were charged, newest first: merges the newest charges of each subscription. */
export async function listCharges(
  db: Db,
  { chainId, provider, payer, token }: ChargeFilter,
  { afterSeq, limit }: { readonly afterSeq: number | undefined; readonly limit: number },
): Promise<ChargeRow[]> {
  const schemes = sql.join(CHARGES.map(([type, scheme, field]) => sql`(${type}, ${scheme}, ${field})`));
  const { rows } = await sql<ChargeRow>`
    with mine as materialized (select s.id_hash, s.plan_id from subscriptions s
      join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id
      where s.chain_id = ${chainId} and s.subscriber = ${payer}
        ${provider === undefined ? sql`` : sql`and p.provider = ${provider}`})
    select newest.*, m.plan_id from mine m cross join lateral (
      select e.seq, e.id, e.block_time, c.scheme, e.payload->>c.field as amount, e.object_id, e.transaction,
        (e.payload->>'version')::int as version, (e.payload->>'paidThrough')::bigint as paid_through,
        case when c.scheme = 'overage' then (e.payload->>'index')::bigint end as debit_index,
        e.provider, e.payload->>'token' as token
      from events e join (values ${schemes}) c (type, scheme, field) on c.type = e.type
      where e.chain_id = ${chainId} and e.object_id = m.id_hash and not e.reverted
        ${provider === undefined ? sql`` : sql`and e.provider = ${provider}`}
        ${token === undefined ? sql`` : sql`and e.payload->>'token' = ${token}`}
        and coalesce((e.payload->>c.field)::numeric, 0) > 0
        ${afterSeq === undefined ? sql`` : sql`and e.seq < ${afterSeq}`}
      order by e.sequence desc limit ${limit}) newest
    order by newest.seq desc limit ${limit}`.execute(db);
  return rows;
}
