import { type RawBuilder, sql } from "kysely";
import { SCHEMES } from "turnpike/facilitator";
import type { Db, Tx } from "../db/open";
import { amountList, intList, textList } from "../db/sql";
import type { CountedRow, EventProjection } from "../events/projection";
import { DAY_SEC } from "../lib/durations";
import { recountEndings } from "./endings";
import {
  COUNTED_COLUMNS,
  countedOf,
  EVERYONE,
  GRAINS,
  MONEY_KINDS,
  PERIOD_SCHEMES,
  REFUNDS,
  type Sums,
  sumsOf,
} from "./rollups";

const RECOUNT_PAGE = 5_000;

/** The sums of all events, or of those that retention deleted. */
type Kept = "rollup" | "pruned";

const ADDED = "count = r.count + excluded.count, amount = r.amount + excluded.amount";

const SUMS = {
  totals: {
    key: "chain_id, provider, grain, bucket, kind, token, interval_sec",
    values: "count, amount",
    added: ADDED,
  },
  plans: { key: "chain_id, provider, bucket, plan_id, kind, token", values: "count, amount", added: ADDED },
  providers: { key: "chain_id, token, bucket, provider", values: "count, amount", added: ADDED },
  payers: {
    key: "chain_id, provider, token, payer",
    values: "count, amount, refunds, refunded",
    added: `${ADDED}, refunds = r.refunds + excluded.refunds, refunded = r.refunded + excluded.refunded`,
  },
} as const;

type Of = keyof typeof SUMS;

/** Those that are kept of deleted events. The others derive from them. */
const KEPT = ["totals", "plans", "payers"] as const;

const tableOf = <K extends Kept, T extends Of>(kept: K, of: T) => `${kept}_${of}` as const;

/** The tables that can be recomputed from the events, and from the sums of those that retention deleted. */
export const EVENT_SUMS = [...[...KEPT, "providers" as const].map((of) => tableOf("rollup", of)), "endings"] as const;

/** Recomputes the sums from all valid events, and the sums of those that retention deleted. */
export async function recountSums(db: Tx, chainId: number): Promise<void> {
  for (const table of EVENT_SUMS) await db.deleteFrom(table).where("chain_id", "=", chainId).execute();
  for (const of of KEPT) {
    const { key, values } = SUMS[of];
    const columns = sql.raw(`${key}, ${values}`);
    await sql`insert into ${sql.table(tableOf("rollup", of))} (${columns})
      select ${columns} from ${sql.table(tableOf("pruned", of))} where chain_id = ${chainId}::bigint`.execute(db);
  }
  await sql`insert into rollup_providers select chain_id, token, bucket, provider, sum(count), sum(amount)
    from rollup_totals where chain_id = ${chainId}::bigint and grain = ${DAY_SEC}::int
      and provider <> ${EVERYONE} and kind in (${sql.join([...SCHEMES])}) group by 1, 2, 3, 4`.execute(db);
  await recountEndings(db, chainId);
  for (let after = 0; ; ) {
    const rows = await db
      .selectFrom("events")
      .select([...COUNTED_COLUMNS, "seq"])
      .where("chain_id", "=", chainId)
      .where("reverted", "=", false)
      .where("seq", ">", after)
      .orderBy("seq")
      .limit(RECOUNT_PAGE)
      .execute();
    await addSums(db, chainId, sumsOf(rows.map(countedOf)), "rollup");
    const last = rows.at(-1);
    if (!last) return;
    after = last.seq;
  }
}

const addEvents = (tx: Tx, chainId: number, events: readonly CountedRow[], sign: 1 | -1 = 1): Promise<void> =>
  addSums(tx, chainId, sumsOf(events.map(countedOf), sign), "rollup");

/** Adds published events to the sums and subtracts reverted ones. */
export const eventSums: EventProjection = {
  appended: addEvents,
  reverted: (tx, chainId, events) => addEvents(tx, chainId, events, -1),
  async revived(tx, chainId, events) {
    await addEvents(tx, chainId, events);
    return [];
  },
};

/** Keeps the sums of events that are deleted. */
export const keepEventSums = (tx: Tx, chainId: number, events: readonly CountedRow[]): Promise<void> =>
  addSums(tx, chainId, sumsOf(events.map(countedOf)), "pruned");

/** Returns how many events of these types were deleted. */
export async function countPruned(db: Db, chainId: number, types: readonly string[]): Promise<number> {
  const row = await db
    .selectFrom("pruned_totals")
    .select(({ fn }) => fn.sum("count").as("count"))
    .where("chain_id", "=", chainId)
    .where("provider", "=", EVERYONE)
    .where("kind", "in", [...types])
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

async function addSums(db: Db, chainId: number, { entries, payers }: Sums, kept: Kept): Promise<void> {
  if (entries.length === 0) return;
  const added = (of: Of, rows: RawBuilder<unknown>) => {
    const { key, values, added } = SUMS[of];
    return sql`${sql.ref(`added_${of}`)} as (insert into ${sql.table(tableOf(kept, of))} as r (${sql.raw(`${key}, ${values}`)})
      select ${chainId}::bigint, ${rows} on conflict (${sql.raw(key)}) do update set ${sql.raw(added)})`;
  };
  const own = sql`(select * from unnest(${textList(entries.map((row) => row.provider))},
    ${intList(entries.map((row) => row.bucket))}, ${textList(entries.map((row) => row.kind))},
    ${textList(entries.map((row) => row.token))}, ${textList(entries.map((row) => row.plan))},
    ${intList(entries.map((row) => row.count))}, ${amountList(entries.map((row) => row.amount))})
    as x (provider, bucket, kind, token, plan_id, count, amount))`;
  const parts = [added("totals", totalsOf(chainId, own))];
  if (entries.some(({ plan }) => plan !== "")) parts.push(added("plans", plansOf(own)));
  if (kept === "rollup" && entries.some(({ token }) => token !== "")) parts.push(added("providers", providersOf(own)));
  if (payers.length > 0) parts.push(added("payers", payersOf(payers)));
  // One statement: a request that waits for a block waits for each round trip.
  await sql`with ${sql.join(parts)} select 1`.execute(db);
}

/** Of all providers together, too. Money also by hour; of the prices of periods, days have the length of the period. */
const totalsOf = (chainId: number, entries: RawBuilder<unknown>) => sql`
  o.owner, g.grain, x.bucket - x.bucket % g.grain, x.kind, x.token,
    case when g.grain = ${DAY_SEC} and x.kind in (${sql.join([...PERIOD_SCHEMES])}) then coalesce(p.interval_sec, 0) else 0 end,
    sum(x.count), sum(x.amount)
  from ${entries} x left join plans p on p.chain_id = ${chainId}::bigint and p.plan_id = x.plan_id
  cross join lateral (select ${EVERYONE}::text as owner union select x.provider) o
  cross join unnest(${intList(GRAINS)}) g (grain)
  where g.grain = ${DAY_SEC} or x.kind in (${sql.join([...MONEY_KINDS])}) group by 2, 3, 4, 5, 6, 7 order by 2, 3, 4, 5, 6, 7`;

/** A plan's provider can change: each sum is that of the event's. */
const plansOf = (entries: RawBuilder<unknown>) => sql`
  x.provider, x.bucket - x.bucket % ${DAY_SEC}::bigint, x.plan_id, x.kind, x.token, sum(x.count), sum(x.amount)
  from ${entries} x where x.plan_id <> '' and x.provider <> ${EVERYONE} group by 2, 3, 4, 5, 6 order by 2, 3, 4, 5, 6`;

const providersOf = (entries: RawBuilder<unknown>) => sql`
  x.token, x.bucket - x.bucket % ${DAY_SEC}::bigint, x.provider, sum(x.count), sum(x.amount)
  from ${entries} x where x.kind in (${sql.join([...SCHEMES])}) and x.provider <> ${EVERYONE}
  group by 2, 3, 4 order by 2, 3, 4`;

function payersOf(payers: Sums["payers"]): RawBuilder<unknown> {
  const sumsWhere = (condition: RawBuilder<unknown>) => sql`coalesce(sum(x.count) filter (where ${condition}), 0),
    coalesce(sum(x.amount) filter (where ${condition}), 0)`;
  return sql`x.provider, x.token, x.payer, ${sumsWhere(sql`x.kind <> ${REFUNDS}`)}, ${sumsWhere(sql`x.kind = ${REFUNDS}`)}
    from unnest(${textList(payers.map((row) => row.provider))}, ${textList(payers.map((row) => row.token))},
      ${textList(payers.map((row) => row.payer))}, ${textList(payers.map((row) => row.kind))},
      ${intList(payers.map((row) => row.count))}, ${amountList(payers.map((row) => row.amount))})
      as x (provider, token, payer, kind, count, amount)
    group by 2, 3, 4 order by 2, 3, 4`;
}
