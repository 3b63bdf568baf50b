/**
 * What charts and tables show, read from the sums. A scope is one provider or everyone; amounts are base units of one
 * token; ranges are `[from, to)` in unix seconds and lie on the borders of their grain.
 */
import { type RawBuilder, sql } from "kysely";
import { SCHEMES, type Scheme } from "turnpike/facilitator";
import type { Db } from "../db/open";
import { DAY_SEC } from "../lib/durations";
import type { Range, Scope } from "./ranges";
import { EVERYONE, type Grain, spansOf } from "./rollups";
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

/** In the order of time; hours and days without payments are left out. */
export function volumeOverTime(db: Db, scope: Scope, range: Range, grain: Grain): Promise<VolumePoint[]> {
  const isScattered = scope.provider === undefined && grain !== DAY_SEC;
  const read = (from: Db) => volumePoints(from, scope, range, grain);
  return isScattered ? inPageOrder(db, read) : read(db);
}

/**
 * The hours of everyone lie on as many pages as there are: read in the order of pages they are fetched ahead, in that of
 * the index one by one. What PostgreSQL takes to be cheaper is dearer on a disk.
 */
function inPageOrder<T>(db: Db, read: (from: Db) => Promise<T>): Promise<T> {
  return db.transaction().execute(async (tx) => {
    await sql`set local enable_indexscan = off`.execute(tx);
    return read(tx);
  });
}

async function volumePoints(db: Db, scope: Scope, range: Range, grain: Grain): Promise<VolumePoint[]> {
  const rows = await db
    .selectFrom("rollup_volume")
    .select(["bucket", "scheme", "count", "amount"])
    .where("chain_id", "=", scope.chainId)
    .where("provider", "=", scope.provider ?? EVERYONE)
    .where("grain", "=", grain)
    .where("bucket", ">=", range.fromSec)
    .where("bucket", "<", range.toSec)
    .where("token", "=", scope.token)
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

export function byScheme(points: readonly VolumePoint[]): ReadonlyMap<Scheme, Sum> {
  const sums = new Map<Scheme, Sum>(SCHEMES.map((scheme) => [scheme, { count: 0, amount: 0n }]));
  for (const { scheme, count, amount } of points) {
    const sum = sums.get(scheme) ?? { count: 0, amount: 0n };
    sums.set(scheme, { count: sum.count + count, amount: sum.amount + amount });
  }
  return sums;
}

/** How often each type of event was told. */
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

/** Start of the first day of which anything is told; undefined before anything was. */
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

/** Rows of a range's days, by the longest spans that make it up. @param rowsOf of the spans that the condition is of */
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
  readonly deprecated: boolean;
  /** served now */
  readonly active: number;
  /** what the active ones pay in 30 days, base units, rounded down */
  readonly recurring: bigint;
  readonly byScheme: ReadonlyMap<Scheme, Sum>;
}

export interface PlanPage {
  readonly nowSec: number;
  readonly limit: number;
  /** in the order in which they were made, from the one after this; absent: highest revenue first */
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
    select p.plan_id, p.plan_index, p.provider, p.metadata, p.amount as price, p.interval_sec, p.deprecated, m.schemes,
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
  /** one alone */
  readonly payer?: string | undefined;
  /** by address, from the one after this: whoever pays meanwhile keeps its place; absent: who paid most first */
  readonly after?: string | undefined;
}

/** Who paid how much, ever: of everyone, the pairs of payer and provider. */
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
