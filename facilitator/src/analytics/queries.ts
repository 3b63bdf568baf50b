/**
 * Reads the sums behind charts and tables. A scope is one provider or all of them. Amounts are base units of one token.
 * Ranges are `[from, to)` in unix seconds, aligned to their grain.
 */
import { type RawBuilder, sql } from "kysely";
import { SCHEMES, type Scheme } from "turnpike/facilitator";
import type { Db } from "../db/open";
import { DAY_SEC } from "../lib/durations";
import type { Ordered, Range, Scope } from "./ranges";
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
    .where("kind", "in", SCHEMES)
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

/** Sums of whole days by kind. */
export type KindSums = ReadonlyMap<string, Sum>;

/** @param scope its token is empty for what is counted alone */
export async function sumsByKind(db: Db, scope: Scope, range: Range): Promise<KindSums> {
  const rows = await totalsIn(db, scope, range)
    .select(({ fn }) => ["kind", sumOf.as("count"), fn.sum<string>("amount").as("amount")])
    .groupBy("kind")
    .execute();
  return new Map(rows.map(({ kind, count, amount }) => [kind, { count, amount: BigInt(amount) }]));
}

export const sumOfKinds = (sums: KindSums, kinds: readonly string[]): Sum =>
  kinds.reduce(
    (sum, kind) => ({
      count: sum.count + (sums.get(kind)?.count ?? 0),
      amount: sum.amount + (sums.get(kind)?.amount ?? 0n),
    }),
    { count: 0, amount: 0n },
  );

/** Returns what was paid, and what was refunded of payments of any day. */
export const netOf = (sums: KindSums): NetSum => ({
  ...sumOfKinds(sums, SCHEMES),
  refunds: sumOfKinds(sums, [REFUNDS]),
});

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

/** What orders payers: each is the expression of an index. */
const PAYER_FIGURES = {
  paid: sql<string>`amount`,
  refunds: sql<string>`refunded`,
  net: sql<string>`(amount - refunded)`,
  payments: sql<string>`count`,
} as const;

export type PayerOrder = Ordered<keyof typeof PAYER_FIGURES>;

export interface PayerPage {
  readonly limit: number;
  readonly payer?: string | undefined;
  /** by a figure; absent: by address, whose order payments made meanwhile do not change */
  readonly by?: Pick<PayerOrder, "sort" | "order">;
  /** starts behind this row */
  readonly after?: { readonly figure?: string; readonly id: string } | undefined;
}

/** Returns the total of each payer. For the scope of all providers, rows are pairs of payer and provider. */
export async function payersOf(
  db: Db,
  { chainId, provider, token }: Scope,
  { limit, payer, by, after }: PayerPage,
): Promise<(PayerFigures & { readonly figure: string })[]> {
  const figure = by ? PAYER_FIGURES[by.sort] : sql<string>`null`;
  const way = by?.order ?? "asc";
  const type = sql.raw(by?.sort === "payments" ? "bigint" : "numeric");
  let query = db
    .selectFrom("rollup_payers")
    .select(["payer", "provider", "count", "amount", "refunds", "refunded", sql<string>`${figure}::text`.as("figure")])
    .where("chain_id", "=", chainId)
    .where("token", "=", token)
    .where((eb) => eb.or([eb("count", ">", 0), eb("refunds", ">", 0)]));
  if (provider !== undefined) query = query.where("provider", "=", provider);
  if (payer !== undefined) query = query.where("payer", "=", payer);
  if (after && !by) query = query.where("payer", ">", after.id);
  if (after && by) {
    const behind = sql.raw(way === "asc" ? ">" : "<");
    query = query.where(sql<boolean>`(${figure}, payer) ${behind} (${after.figure}::${type}, ${after.id})`);
  }
  if (by) query = query.orderBy(figure, way);
  const rows = await query.orderBy("payer", way).limit(limit).execute();
  return rows.map(({ refunds, refunded, ...row }) => ({
    ...row,
    amount: BigInt(row.amount),
    refunds: { count: refunds, amount: BigInt(refunded) },
  }));
}

export const schemesToWire = (
  sums: KindSums,
  schemes: Iterable<Scheme> = SCHEMES,
): Partial<Record<Scheme, { count: number; amount: string }>> =>
  Object.fromEntries([...schemes].map((scheme) => [scheme, sumToWire(sumOfKinds(sums, [scheme]))]));
