/**
 * Reads the sums behind charts and tables. A scope is one provider or all of them. Amounts are base units of one token.
 * Ranges are `[from, to)` in unix seconds, aligned to their grain.
 */
import { type RawBuilder, sql } from "kysely";
import { SCHEMES, type Scheme } from "turnpike/facilitator";
import type { Db } from "../db/open";
import { DAY_SEC } from "../lib/durations";
import type { Range, Scope } from "./ranges";
import { EVERYONE, type Grain, REFUNDS, spansOf } from "./rollups";

export interface Sum {
  readonly count: number;
  readonly amount: bigint;
}

export const sumToWire = ({ count, amount }: Sum) => ({ count, amount: amount.toString() });

export interface NetSum extends Sum {
  readonly refunds: Sum;
}

export const netToWire = ({ refunds, ...sum }: NetSum) => ({
  ...sumToWire(sum),
  refunds: sumToWire(refunds),
  net: (sum.amount - refunds.amount).toString(),
});

export interface VolumePoint extends Sum {
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

/** @param token empty: of what is counted alone */
export const totalsIn = (db: Db, { chainId, provider, token }: Scope, range: Range, grain: Grain = DAY_SEC) =>
  db
    .selectFrom("rollup_totals")
    .where("chain_id", "=", chainId)
    .where("provider", "=", provider ?? EVERYONE)
    .where("grain", "=", grain)
    .where("bucket", ">=", range.fromSec)
    .where("bucket", "<", range.toSec)
    .where("token", "=", token);

const sumOf = sql<number>`sum(count)::int8`;

async function volumePoints(db: Db, scope: Scope, range: Range, grain: Grain): Promise<VolumePoint[]> {
  const rows = await totalsIn(db, scope, range, grain)
    .select(({ fn }) => ["bucket", "kind", sumOf.as("count"), fn.sum<string>("amount").as("amount")])
    .where("kind", "!=", REFUNDS)
    .where("count", "!=", 0)
    .groupBy(["bucket", "kind"])
    .orderBy("bucket")
    .orderBy("kind")
    .execute();
  return rows.map(({ bucket, kind, count, amount }) => ({
    atSec: bucket,
    scheme: kind as Scheme,
    count,
    amount: BigInt(amount),
  }));
}

/** Returns what was refunded in a range of whole days, of payments of any day. */
export async function refundsIn(db: Db, scope: Scope, range: Range): Promise<Sum> {
  const row = await totalsIn(db, scope, range)
    .select(({ fn }) => [fn.sum<string | null>("count").as("count"), fn.sum<string | null>("amount").as("amount")])
    .where("kind", "=", REFUNDS)
    .executeTakeFirst();
  return { count: Number(row?.count ?? 0), amount: BigInt(row?.amount ?? 0) };
}

/** Returns what all payers paid since the beginning, and what was refunded. */
export async function everPaid(db: Db, scope: Scope): Promise<NetSum> {
  const rows = await totalsIn(db, scope, { fromSec: 0, toSec: Number.MAX_SAFE_INTEGER })
    .select(({ fn }) => ["kind", fn.sum<string>("count").as("count"), fn.sum<string>("amount").as("amount")])
    .groupBy("kind")
    .execute();
  const total = (some: typeof rows): Sum => ({
    count: some.reduce((sum, { count }) => sum + Number(count), 0),
    amount: some.reduce((sum, { amount }) => sum + BigInt(amount), 0n),
  });
  const isRefund = ({ kind }: { readonly kind: string }): boolean => kind === REFUNDS;
  return { ...total(rows.filter((row) => !isRefund(row))), refunds: total(rows.filter(isRefund)) };
}

export function byScheme(points: readonly VolumePoint[]): ReadonlyMap<Scheme, Sum> {
  const sums = new Map<Scheme, Sum>(SCHEMES.map((scheme) => [scheme, { count: 0, amount: 0n }]));
  for (const { scheme, count, amount } of points) {
    const sum = sums.get(scheme) ?? { count: 0, amount: 0n };
    sums.set(scheme, { count: sum.count + count, amount: sum.amount + amount });
  }
  return sums;
}

/** Returns the number of events by type, and of failures by type and cause. */
export async function eventCounts(
  db: Db,
  scope: Pick<Scope, "chainId" | "provider">,
  range: Range,
): Promise<ReadonlyMap<string, number>> {
  const rows = await totalsIn(db, { ...scope, token: "" }, range)
    .select(["kind", sumOf.as("count")])
    .groupBy("kind")
    .execute();
  return new Map(rows.map(({ kind, count }) => [kind, count]));
}

/** Returns the start of the first day with data; undefined before there is any. */
export async function firstDay(
  db: Db,
  { chainId, provider }: Pick<Scope, "chainId" | "provider">,
): Promise<number | undefined> {
  const row = await db
    .selectFrom("rollup_totals")
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

export interface PayerFigures extends NetSum {
  readonly payer: string;
  readonly provider: string;
}

export interface PayerPage {
  readonly limit: number;
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
    .select(["payer", "provider", "count", "amount", "refunds", "refunded"])
    .where("chain_id", "=", chainId)
    .where("token", "=", token)
    .where((eb) => eb.or([eb("count", ">", 0), eb("refunds", ">", 0)]));
  if (provider !== undefined) query = query.where("provider", "=", provider);
  if (payer !== undefined) query = query.where("payer", "=", payer);
  if (after === undefined) query = query.orderBy("amount", "desc");
  else query = query.where("payer", ">", after);
  const rows = await query.orderBy("payer").limit(limit).execute();
  return rows.map(({ refunds, refunded, ...row }) => ({
    ...row,
    amount: BigInt(row.amount),
    refunds: { count: refunds, amount: BigInt(refunded) },
  }));
}

export function schemesToWire(
  sums: ReadonlyMap<Scheme, Sum>,
): Partial<Record<Scheme, { count: number; amount: string }>> {
  return Object.fromEntries([...sums].map(([scheme, sum]) => [scheme, sumToWire(sum)]));
}
