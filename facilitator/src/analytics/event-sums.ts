import { type RawBuilder, sql } from "kysely";
import type { Db, Tx } from "../db/open";
import { amountList, intList, textList } from "../db/sql";
import type { CountedRow, EventProjection } from "../events/projection";
import { DAY_SEC, FOUR_WEEKS_SEC } from "../lib/durations";
import { addPayers } from "./payer-sums";
import { addPrunedSums } from "./pruned-sums";
import { COUNTED_COLUMNS, countedOf, EVERYONE, PERIOD_SCHEMES, REFUNDS, SPANS, type Sums, sumsOf } from "./rollups";

const RECOUNT_PAGE = 5_000;

/** Recomputes the sums from all valid events, and the sums of those that retention deleted. */
export async function recountSums(db: Tx, chainId: number): Promise<void> {
  for (const table of EVENT_SUMS) await db.deleteFrom(table).where("chain_id", "=", chainId).execute();
  await addPrunedSums(db, chainId);
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
    await addSums(db, chainId, sumsOf(rows.map(countedOf)));
    const last = rows.at(-1);
    if (!last) return;
    after = last.seq;
  }
}

/** The tables that `addSums` writes. They can be recomputed from the events. */
export const EVENT_SUMS = [
  "rollup_volume",
  "rollup_provider_plans",
  "rollup_payers",
  "rollup_events",
  "rollup_recurring",
  "rollup_causes",
  "rollup_providers",
  "rollup_provider_spans",
] as const;

const PROVIDERS_BY = [
  ["rollup_providers", DAY_SEC],
  ["rollup_provider_spans", FOUR_WEEKS_SEC],
] as const;

const addEvents = (tx: Tx, chainId: number, events: readonly CountedRow[], sign: 1 | -1 = 1): Promise<void> =>
  addSums(tx, chainId, sumsOf(events.map(countedOf), sign));

/** Adds published events to the sums and subtracts reverted ones. */
export const eventSums: EventProjection = {
  appended: addEvents,
  reverted: (tx, chainId, events) => addEvents(tx, chainId, events, -1),
  async revived(tx, chainId, events) {
    await addEvents(tx, chainId, events);
    return [];
  },
};

async function addSums(db: Db, chainId: number, sums: Sums): Promise<void> {
  const additions = additionsOf(chainId, sums);
  if (additions.length === 0) return;
  // One statement: a request that waits for a block waits for each round trip.
  const parts = additions.map((addition, place) => sql`${sql.ref(`sum_${place}`)} as (${addition})`);
  await sql`with ${sql.join(parts)} select 1`.execute(db);
}

function additionsOf(chainId: number, { volume, plans, payers, events, causes }: Sums): RawBuilder<unknown>[] {
  const additions: RawBuilder<unknown>[] = [];
  if (volume.length > 0) {
    additions.push(sql`insert into rollup_volume as r (chain_id, provider, grain, bucket, token, scheme, count, amount)
      select ${chainId}, * from unnest(${textList(volume.map((row) => row.provider))}, ${intList(volume.map((row) => row.grain))},
        ${intList(volume.map((row) => row.bucket))}, ${textList(volume.map((row) => row.token))},
        ${textList(volume.map((row) => row.scheme))}, ${intList(volume.map((row) => row.count))}, ${amountsOf(volume)})
      on conflict (chain_id, provider, grain, bucket, token, scheme)
      do update set count = r.count + excluded.count, amount = r.amount + excluded.amount`);
  }
  const daily = volume.filter(
    ({ provider, grain, scheme }) => grain === DAY_SEC && provider !== EVERYONE && scheme !== REFUNDS,
  );
  if (daily.length > 0) {
    for (const [table, span] of PROVIDERS_BY) {
      additions.push(sql`insert into ${sql.table(table)} as r (chain_id, token, bucket, provider, count, amount)
        select ${chainId}::bigint, x.token, x.bucket - x.bucket % ${span}::bigint, x.provider, sum(x.count), sum(x.amount)
        from unnest(${textList(daily.map((row) => row.token))}, ${intList(daily.map((row) => row.bucket))},
          ${textList(daily.map((row) => row.provider))}, ${intList(daily.map((row) => row.count))},
          ${amountsOf(daily)}) as x (token, bucket, provider, count, amount)
        group by 2, 3, 4 order by 2, 3, 4
        on conflict (chain_id, token, bucket, provider)
        do update set count = r.count + excluded.count, amount = r.amount + excluded.amount`);
    }
  }
  if (plans.length > 0) {
    // A plan is stored before any payment for it. Its provider can change: each sum is that of the event's.
    additions.push(sql`insert into rollup_provider_plans as r (chain_id, provider, grain, bucket, plan_id, scheme, count, amount)
      select ${chainId}::bigint, x.provider, g.grain, x.bucket - x.bucket % g.grain, x.plan_id, x.scheme, sum(x.count), sum(x.amount)
      from unnest(${textList(plans.map((row) => row.plan))}, ${intList(plans.map((row) => row.bucket))},
        ${textList(plans.map((row) => row.token))}, ${textList(plans.map((row) => row.scheme))},
        ${intList(plans.map((row) => row.count))}, ${amountsOf(plans)},
        ${textList(plans.map((row) => row.provider))}) as x (plan_id, bucket, token, scheme, count, amount, provider)
      join plans p on p.chain_id = ${chainId} and p.plan_id = x.plan_id and p.token = x.token
      cross join unnest(${intList(SPANS)}) g (grain)
      group by 2, 3, 4, 5, 6 order by 2, 3, 4, 5, 6
      on conflict (chain_id, provider, grain, bucket, plan_id, scheme)
      do update set count = r.count + excluded.count, amount = r.amount + excluded.amount`);
  }
  const periods = plans.filter(({ scheme }) => PERIOD_SCHEMES.includes(scheme));
  if (periods.length > 0) {
    additions.push(sql`insert into rollup_recurring as r (chain_id, provider, token, interval_sec, bucket, count, amount)
      select ${chainId}::bigint, o.owner, x.token, p.interval_sec, x.bucket, sum(x.count), sum(x.amount)
      from unnest(${textList(periods.map((row) => row.plan))}, ${intList(periods.map((row) => row.bucket))},
        ${textList(periods.map((row) => row.token))}, ${intList(periods.map((row) => row.count))},
        ${amountsOf(periods)}, ${textList(periods.map((row) => row.provider))})
        as x (plan_id, bucket, token, count, amount, provider)
      join plans p on p.chain_id = ${chainId} and p.plan_id = x.plan_id
      cross join lateral (values (''), (x.provider)) o (owner)
      group by o.owner, x.token, p.interval_sec, x.bucket order by o.owner, x.token, p.interval_sec, x.bucket
      on conflict (chain_id, provider, token, interval_sec, bucket)
      do update set count = r.count + excluded.count, amount = r.amount + excluded.amount`);
  }
  if (causes.length > 0) {
    additions.push(sql`insert into rollup_causes as r (chain_id, provider, bucket, type, cause, count)
      select ${chainId}, * from unnest(${textList(causes.map((row) => row.provider))}, ${intList(causes.map((row) => row.bucket))},
        ${textList(causes.map((row) => row.type))}, ${textList(causes.map((row) => row.cause))},
        ${intList(causes.map((row) => row.count))})
      on conflict (chain_id, provider, bucket, type, cause) do update set count = r.count + excluded.count`);
  }
  if (payers.length > 0) additions.push(addPayers("rollup_payers", chainId, payers));
  if (events.length > 0) {
    additions.push(sql`insert into rollup_events as r (chain_id, provider, grain, bucket, type, count)
      select ${chainId}, x.provider, ${DAY_SEC}::int, x.bucket, x.type, x.count
      from unnest(${textList(events.map((row) => row.provider))}, ${intList(events.map((row) => row.bucket))},
        ${textList(events.map((row) => row.type))}, ${intList(events.map((row) => row.count))}) as x (provider, bucket, type, count)
      on conflict (chain_id, provider, grain, bucket, type) do update set count = r.count + excluded.count`);
  }
  return additions;
}

const amountsOf = (rows: readonly { readonly amount: bigint }[]) => amountList(rows.map(({ amount }) => amount));
