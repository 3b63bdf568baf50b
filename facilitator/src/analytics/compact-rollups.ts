/**
 * Compacts the rollups of finished days by grouping their rows by owner. Rows are written in time order, so a year of
 * one provider would take as many page reads as it has days. Rows are moved, never changed.
 */
import { sql } from "kysely";
import { lockCursor, moveCursor } from "../db/cursors";
import type { Store, Tx } from "../db/open";
import type { EventFeed } from "../events/feed";
import { DAY_SEC, FOUR_WEEKS_SEC, HOUR_SEC, WEEK_SEC } from "../lib/durations";
import { bucketOf, type Span } from "./rollups";

interface Compaction {
  readonly table: "rollup_totals" | "rollup_plans" | "rollup_funnel";
  readonly key: string;
  readonly grain?: number;
  /** the span that is compacted at once, after its end */
  readonly every: Span;
}

interface Rollups {
  readonly store: Store;
  readonly feed: EventFeed;
  readonly chainId: number;
}

const TOTALS = { table: "rollup_totals", key: "provider, bucket, kind, token, interval_sec" } as const;

const FUNNEL = { table: "rollup_funnel", key: "provider, resource, bucket, token, step, cause, offer" } as const;

const COMPACTIONS: readonly Compaction[] = [
  { ...TOTALS, grain: HOUR_SEC, every: DAY_SEC },
  { ...TOTALS, grain: DAY_SEC, every: WEEK_SEC },
  { table: "rollup_plans", key: "provider, bucket, plan_id, kind, token", every: FOUR_WEEKS_SEC },
  { ...FUNNEL, grain: DAY_SEC, every: WEEK_SEC },
  { ...FUNNEL, grain: WEEK_SEC, every: FOUR_WEEKS_SEC },
  { ...FUNNEL, grain: FOUR_WEEKS_SEC, every: FOUR_WEEKS_SEC },
];

/** Gates report about the last day. Older rows rarely change. */
const OPEN_SEC = DAY_SEC;

/** Compacts every finished span that is not compacted yet. @returns the number of rows moved */
export async function compactRollups(rollups: Rollups, nowSec: number): Promise<number> {
  const { store } = rollups;
  let moved = 0;
  for (const what of COMPACTIONS) {
    let of = 0;
    for (;;) {
      const done = await compactNext(rollups, { what, untilSec: bucketOf(nowSec, DAY_SEC) - OPEN_SEC });
      if (done === undefined) break;
      of += done;
    }
    moved += of;
    // Frees the old pages: the embedded database has no autovacuum.
    if (of > 0) await sql`vacuum analyze ${sql.table(what.table)}`.execute(store.db);
  }
  return moved;
}

/** @returns undefined when every finished span is compacted */
async function compactNext(
  { store, feed, chainId }: Rollups,
  { what, untilSec }: { readonly what: Compaction; readonly untilSec: number },
): Promise<number | undefined> {
  const { table, key, grain, every } = what;
  const name = `gathered ${table} ${grain ?? DAY_SEC}`;
  const ofGrain = grain === undefined ? sql`` : sql`and grain = ${grain}`;
  return store.transaction(async (tx) => {
    // One writer at a time, so that no writer waits for a row that moves.
    await feed.lock(tx);
    const fromSec = await nextOf(tx);
    if (fromSec === undefined || fromSec + every > untilSec) return undefined;
    const { numAffectedRows } = await sql`
      with taken as (delete from ${sql.table(table)} where chain_id = ${chainId} ${ofGrain}
        and bucket >= ${fromSec} and bucket < ${fromSec + every} returning *)
      insert into ${sql.table(table)} select * from taken order by ${sql.raw(key)}`.execute(tx);
    await moveCursor(tx, { chainId, name }, fromSec + every);
    return Number(numAffectedRows ?? 0);
  });

  async function nextOf(tx: Tx): Promise<number | undefined> {
    const position = await lockCursor(tx, { chainId, name });
    if (position !== undefined) return position;
    const { rows } = await sql<{ first: number | null }>`select min(bucket) as first from ${sql.table(table)}
      where chain_id = ${chainId} ${ofGrain}`.execute(tx);
    const first = rows[0]?.first;
    return first === null || first === undefined ? undefined : bucketOf(first, every);
  }
}
