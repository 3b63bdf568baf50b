/**
 * Reads the sums behind charts and tables. A scope is one provider or all of them. Amounts are base units of one token.
 * Ranges are `[from, to)` in unix seconds, aligned to their grain.
 */
import { type RawBuilder, sql } from "kysely";
import { SCHEMES, type Scheme } from "turnpike/facilitator";
import type { Db } from "../db/open";
import { DAY_SEC } from "../lib/durations";
import { proposalOf } from "../subscriptions/payloads";
import type { Range, Scope } from "./ranges";
import { EVERYONE, type Grain, REFUNDS, spansOf } from "./rollups";
import { activeByPlan, inAMonth } from "./standing";

export interface Sum {
  readonly count: number;
  readonly amount: bigint;
}

export const sumToWire = ({ count, amount }: Sum) => ({ count, amount: amount.toString() });

export interface VolumePoint extends Sum {
  /** start of the hour or day */
  readonly atSec: number;
  readonly scheme: Scheme;
}

/** In time order; hours and days without payments are left out. */
export function volumeOverTime(db: Db, scope: Scope, range: Range, grain: Grain): Promise<VolumePoint[]> {
  const isScattered = scope.provider === undefined && grain !== DAY_SEC;
  const read = (from: Db) => volumePoints(from, scope, range, grain);
  return isScattered ? inPageOrder(db, read) : read(db);
}

/**
 * Reads the hours of all providers in page order, so that pages are prefetched. Each hour is on a page of its own, and
 * index order reads these pages one by one. PostgreSQL estimates that order as cheaper, but on a disk it is slower.
 */
function inPageOrder<T>(db: Db, read: (from: Db) => Promise<T>): Promise<T> {
  return db.transaction().execute(async (tx) => {
    await sql`set local enable_indexscan = off`.execute(tx);
    return read(tx);
  });
}

/** The sums of a range, those of refunds included. */
const volumeIn = (db: Db, scope: Scope, range: Range, grain: Grain) =>
  db
    .selectFrom("rollup_volume")
    .where("chain_id", "=", scope.chainId)
    .where("provider", "=", scope.provider ?? EVERYONE)
    .where("grain", "=", grain)
    .where("bucket", ">=", range.fromSec)
    .where("bucket", "<", range.toSec)
    .where("token", "=", scope.token);

async function volumePoints(db: Db, scope: Scope, range: Range, grain: Grain): Promise<VolumePoint[]> {
  const rows = await volumeIn(db, scope, range, grain)
    .select(["bucket", "scheme", "count", "amount"])
    .where("scheme", "!=", REFUNDS)
    .where("count", "!=", 0)
    .orderBy("bucket")
    .orderBy("scheme")
    .execute();
  return rows.map(({ bucket, scheme, count, amount }) => ({
    atSec: bucket,
    scheme: scheme as Scheme,
    count,
    amount: BigInt(amount),
  }));
}

/** Returns what was refunded in a range of whole days, of payments of any day. */
export async function refundsIn(db: Db, scope: Scope, range: Range): Promise<Sum> {
  const row = await volumeIn(db, scope, range, DAY_SEC)
    .select(({ fn }) => [fn.sum<string | null>("count").as("count"), fn.sum<string | null>("amount").as("amount")])
    .where("scheme", "=", REFUNDS)
    .executeTakeFirst();
  return { count: Number(row?.count ?? 0), amount: BigInt(row?.amount ?? 0) };
}

export function byScheme(points: readonly VolumePoint[]): ReadonlyMap<Scheme, Sum> {
  const sums = new Map<Scheme, Sum>(SCHEMES.map((scheme) => [scheme, { count: 0, amount: 0n }]));
  for (const { scheme, count, amount } of points) {
    const sum = sums.get(scheme) ?? { count: 0, amount: 0n };
    sums.set(scheme, { count: sum.count + count, amount: sum.amount + amount });
  }
  return sums;
}

/** Counts published events by type. */
export async function eventCounts(
  db: Db,
  scope: Pick<Scope, "chainId" | "provider">,
  range: Range,
): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom("rollup_events")
    .select(["type", sql<number>`sum(count)::int8`.as("count")])
    .where("chain_id", "=", scope.chainId)
    .where("provider", "=", scope.provider ?? EVERYONE)
    .where("grain", "=", DAY_SEC)
    .where("bucket", ">=", range.fromSec)
    .where("bucket", "<", range.toSec)
    .groupBy("type")
    .execute();
  return new Map(rows.map(({ type, count }) => [type, count]));
}

/** Returns the start of the first day with data; undefined before there is any. */
export async function firstDay(
  db: Db,
  { chainId, provider }: Pick<Scope, "chainId" | "provider">,
): Promise<number | undefined> {
  const row = await db
    .selectFrom("rollup_events")
    .select("bucket")
    .where("chain_id", "=", chainId)
    .where("provider", "=", provider ?? EVERYONE)
    .where("grain", "=", DAY_SEC)
    .where("count", "!=", 0)
    .orderBy("bucket")
    .limit(1)
    .executeTakeFirst();
  return row?.bucket;
}

/**
 * Reads the rows of a range's days, using the longest spans that compose it.
 * @param rowsOf builds the query of the rows that match a condition on spans
 */
export function inSpans(
  { fromSec, toSec }: Range,
  rowsOf: (within: RawBuilder<boolean>) => RawBuilder<unknown>,
): RawBuilder<unknown> {
  const parts = spansOf(fromSec, toSec).map((span) =>
    rowsOf(sql`grain = ${span.grain} and bucket >= ${span.fromSec} and bucket < ${span.toSec}`),
  );
  return sql.join(parts, sql` union all `);
}

export interface PlanFigures extends Sum {
  readonly planId: string;
  /** counts the contract's plans */
  readonly index: number;
  readonly provider: string;
  readonly metadata: string;
  readonly price: bigint;
  readonly intervalSec: number;
  readonly months: number;
  readonly payTo: string;
  readonly proposed: ReturnType<typeof proposalOf>;
  readonly deprecated: boolean;
  /** active now */
  readonly active: number;
  /** 30-day revenue of the active ones, base units, rounded down */
  readonly recurring: bigint;
  readonly byScheme: ReadonlyMap<Scheme, Sum>;
}

export interface PlanPage {
  readonly nowSec: number;
  readonly limit: number;
  /** in order of creation, starting after this plan; absent: highest revenue first */
  readonly afterIndex?: number | undefined;
}

export async function planFigures(
  db: Db,
  scope: Scope & { readonly provider: string },
  range: Range,
  page: PlanPage,
): Promise<PlanFigures[]> {
  const { chainId, provider, token } = scope;
  const spans = inSpans(
    range,
    (within) => sql`select plan_id, scheme, count, amount from rollup_provider_plans
    where chain_id = ${chainId} and provider = ${provider} and ${within}`,
  );
  const { rows } = await sql<PlanRow>`
    with by_scheme as (select plan_id, scheme, sum(count) as count, sum(amount) as amount from (${spans}) r group by 1, 2),
    by_plan as materialized (select plan_id, sum(count) as count, sum(amount) as amount,
        json_agg(json_build_object('scheme', scheme, 'count', count, 'amount', amount::text)) as schemes
      from by_scheme group by plan_id)
    select p.plan_id, p.plan_index, p.provider, p.metadata, p.amount as price, p.interval_sec, p.months,
      p.pay_to, p.proposed_pay_to, p.pay_to_effective_at, p.deprecated, m.schemes,
      coalesce(m.count, 0)::int8 as count, coalesce(m.amount, 0) as amount
    from plans p left join by_plan m on m.plan_id = p.plan_id
    where p.chain_id = ${chainId} and p.token = ${token} and p.provider = ${provider}
      ${page.afterIndex === undefined ? sql`` : sql`and p.plan_index > ${page.afterIndex}`}
    order by ${page.afterIndex === undefined ? sql`coalesce(m.amount, 0) desc,` : sql``} p.plan_index
    limit ${page.limit}`.execute(db);
  const active = await activeByPlan(
    db,
    chainId,
    rows.map((row) => row.plan_id),
    page.nowSec,
  );
  return rows.map((row) => {
    const live = active.get(row.plan_id) ?? 0;
    return {
      planId: row.plan_id,
      index: row.plan_index,
      provider: row.provider,
      metadata: row.metadata,
      price: BigInt(row.price),
      intervalSec: row.interval_sec,
      months: row.months,
      payTo: row.pay_to,
      proposed: proposalOf(row),
      deprecated: row.deprecated,
      count: row.count,
      amount: BigInt(row.amount),
      active: live,
      recurring: inAMonth(BigInt(row.price) * BigInt(live), row.interval_sec),
      byScheme: new Map(
        (row.schemes ?? []).map(({ scheme, count, amount }) => [scheme, { count, amount: BigInt(amount) }]),
      ),
    };
  });
}

interface PlanRow {
  readonly plan_id: string;
  readonly plan_index: number;
  readonly provider: string;
  readonly metadata: string;
  readonly price: string;
  readonly interval_sec: number;
  readonly months: number;
  readonly pay_to: string;
  readonly proposed_pay_to: string | null;
  readonly pay_to_effective_at: number | null;
  readonly deprecated: boolean;
  readonly count: number;
  readonly amount: string;
  readonly schemes: readonly { readonly scheme: Scheme; readonly count: number; readonly amount: string }[] | null;
}

export interface PayerFigures extends Sum {
  readonly payer: string;
  readonly provider: string;
}

export interface PayerPage {
  readonly limit: number;
  /** restricts the result to one payer */
  readonly payer?: string | undefined;
  /**
   * by address, starting after this one: payments made meanwhile do not change the order; absent: highest amount first
   */
  readonly after?: string | undefined;
}

/** Returns the total of each payer. For the scope of all providers, rows are pairs of payer and provider. */
export async function payersOf(
  db: Db,
  { chainId, provider, token }: Scope,
  { limit, payer, after }: PayerPage,
): Promise<PayerFigures[]> {
  let query = db
    .selectFrom("rollup_payers")
    .select(["payer", "provider", "count", "amount"])
    .where("chain_id", "=", chainId)
    .where("token", "=", token)
    .where("count", ">", 0);
  if (provider !== undefined) query = query.where("provider", "=", provider);
  if (payer !== undefined) query = query.where("payer", "=", payer);
  if (after === undefined) query = query.orderBy("amount", "desc");
  else query = query.where("payer", ">", after);
  const rows = await query.orderBy("payer").limit(limit).execute();
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
}

export function schemesToWire(
  sums: ReadonlyMap<Scheme, Sum>,
): Partial<Record<Scheme, { count: number; amount: string }>> {
  return Object.fromEntries([...sums].map(([scheme, sum]) => [scheme, sumToWire(sum)]));
}
