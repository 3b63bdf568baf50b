import { sql } from "kysely";
import type { Db, Tx } from "../db/open";
import { idList } from "../db/sql";
import { DAY_SEC, FOUR_WEEKS_SEC } from "../lib/durations";
import type { RecordProjection } from "../subscriptions/rows";
import { bucketOf, EVERYONE } from "./rollups";
import { SERVED_UNTIL } from "./standing";

interface Ends {
  readonly provider: string;
  readonly token: string;
  readonly plan_id: string;
  readonly interval_sec: number;
  readonly amount: string;
  readonly day: number;
  readonly count: number;
}

const SPAN_DAYS = FOUR_WEEKS_SEC / DAY_SEC;

/** Counts the active subscriptions of each plan and provider by the day on which they end. */
export const activeCounts: RecordProjection = { around: updateActiveCounts };

async function updateActiveCounts(
  tx: Tx,
  chainId: number,
  idHashes: readonly string[],
  change: () => Promise<void>,
): Promise<void> {
  if (idHashes.length === 0) return change();
  const before = await endsOf(tx, chainId, idHashes);
  await change();
  const moved = new Map<string, Ends>();
  for (const [sign, rows] of [[-1, before] as const, [1, await endsOf(tx, chainId, idHashes)] as const]) {
    for (const row of rows) {
      const key = `${row.provider} ${row.plan_id} ${row.day}`;
      moved.set(key, { ...row, count: (moved.get(key)?.count ?? 0) + sign * row.count });
    }
  }
  const changed = [...moved.values()].filter(({ count }) => count !== 0);
  if (changed.length === 0) return;
  await addByOwner(tx, chainId, changed);
  await addByPlan(tx, chainId, changed);
}

async function endsOf(db: Db, chainId: number, idHashes: readonly string[]): Promise<Ends[]> {
  const { rows } = await sql<Ends>`
    select p.provider, p.token, s.plan_id, p.interval_sec, p.amount,
      (${SERVED_UNTIL}) / ${DAY_SEC}::bigint * ${DAY_SEC}::bigint as day,
      count(*)::int8 as count
    from subscriptions s join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id
    where s.chain_id = ${chainId}::bigint and s.id_hash = any(${idList(idHashes)})
      and not s.cancelled and not s.paused
    group by 1, 2, 3, 4, 5, 6`.execute(db);
  return rows;
}

async function addByOwner(db: Db, chainId: number, changed: readonly Ends[]): Promise<void> {
  await sql`insert into rollup_standing as r (chain_id, provider, token, bucket, interval_sec, count, amount)
    select ${chainId}::bigint, o.owner, x.token, x.day, x.interval_sec, sum(x.count), sum(x.count * x.amount)
    from json_to_recordset(${JSON.stringify(changed)}::json) as x(provider text, token text, interval_sec bigint,
      amount numeric, day bigint, count bigint)
    cross join lateral (values (${EVERYONE}), (x.provider)) o (owner)
    group by 2, 3, 4, 5 order by 2, 3, 4, 5
    on conflict (chain_id, provider, token, bucket, interval_sec)
    do update set count = r.count + excluded.count, amount = r.amount + excluded.amount`.execute(db);
}

async function addByPlan(db: Db, chainId: number, changed: readonly Ends[]): Promise<void> {
  const spans = new Map<string, { bucket: number; plan_id: string; ends: number[] }>();
  for (const { plan_id, day, count } of changed) {
    const bucket = bucketOf(day, FOUR_WEEKS_SEC);
    const key = `${bucket} ${plan_id}`;
    const span = spans.get(key) ?? { bucket, plan_id, ends: new Array<number>(SPAN_DAYS).fill(0) };
    const place = (day - bucket) / DAY_SEC;
    span.ends[place] = (span.ends[place] ?? 0) + count;
    spans.set(key, span);
  }
  const rows = [...spans].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, span]) => span);
  await sql`insert into rollup_plan_standing as r (chain_id, bucket, plan_id, ends)
    select ${chainId}::bigint, bucket, plan_id, ends
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(bucket bigint, plan_id text, ends bigint[])
    on conflict (chain_id, bucket, plan_id) do update set ends =
      (select array_agg(a + b order by n) from unnest(r.ends, excluded.ends) with ordinality as u (a, b, n))`.execute(
    db,
  );
}
