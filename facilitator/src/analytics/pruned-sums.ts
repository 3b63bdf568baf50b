/** Sums of events that retention deletes: with those of the events that are left, they give the sums behind charts. */
import { sql } from "kysely";
import type { Db, Tx } from "../db/open";
import { amountList, intList, textList } from "../db/sql";
import type { CountedRow } from "../events/projection";
import { DAY_SEC, FOUR_WEEKS_SEC } from "../lib/durations";
import { addPayers, addPrunedPayers } from "./payer-sums";
import { countedOf, EVERYONE, REFUNDS, SPANS, sumsOf } from "./rollups";

export async function keepEventSums(tx: Tx, chainId: number, events: readonly CountedRow[]): Promise<void> {
  const sums = sumsOf(events.map(countedOf));
  const own = [
    ...sums.events.map((row) => ({ ...row, grain: DAY_SEC, counted: row.type, token: "", amount: 0n })),
    ...sums.volume.map((row) => ({ ...row, counted: row.scheme as string })),
  ].filter(({ provider }) => provider !== EVERYONE);
  const { payers, plans } = sums;
  await sql`insert into pruned_sums as p (chain_id, provider, grain, bucket, counted, token, count, amount)
    select ${chainId}::bigint, * from unnest(${textList(own.map((row) => row.provider))},
      ${intList(own.map((row) => row.grain))}, ${intList(own.map((row) => row.bucket))},
      ${textList(own.map((row) => row.counted))},
      ${textList(own.map((row) => row.token))}, ${intList(own.map((row) => row.count))},
      ${amountList(own.map((row) => row.amount))})
    on conflict (chain_id, grain, bucket, counted, token, provider)
    do update set count = p.count + excluded.count, amount = p.amount + excluded.amount`.execute(tx);
  await addPayers("pruned_payers", chainId, payers).execute(tx);
  await sql`insert into pruned_plans as p (chain_id, provider, bucket, plan_id, scheme, count, amount)
    select ${chainId}::bigint, * from unnest(${textList(plans.map((row) => row.provider))},
      ${intList(plans.map((row) => row.bucket))}, ${textList(plans.map((row) => row.plan))},
      ${textList(plans.map((row) => row.scheme))}, ${intList(plans.map((row) => row.count))},
      ${amountList(plans.map((row) => row.amount))})
    on conflict (chain_id, plan_id, bucket, scheme, provider)
    do update set count = p.count + excluded.count, amount = p.amount + excluded.amount`.execute(tx);
}

export async function countPruned(db: Db, chainId: number, types: readonly string[]): Promise<number> {
  const row = await db
    .selectFrom("pruned_sums")
    .select(({ fn }) => fn.sum("count").as("count"))
    .where("chain_id", "=", chainId)
    .where("counted", "in", [...types])
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

const BOTH = sql.raw("cross join lateral (values (''), (p.provider)) o (owner)");

/** Adds the deleted events to the sums, before those that are left are counted. */
export async function addPrunedSums(db: Db, chainId: number): Promise<void> {
  const added = sql.raw("count = r.count + excluded.count, amount = r.amount + excluded.amount");
  await sql`insert into rollup_volume as r (chain_id, provider, grain, bucket, token, scheme, count, amount)
    select p.chain_id, o.owner, p.grain, p.bucket, p.token, p.counted, sum(p.count), sum(p.amount)
    from pruned_sums p ${BOTH} where p.chain_id = ${chainId}::bigint and p.token <> '' group by 1, 2, 3, 4, 5, 6
    on conflict (chain_id, provider, grain, bucket, token, scheme) do update set ${added}`.execute(db);
  await sql`insert into rollup_events as r (chain_id, provider, grain, bucket, type, count)
    select p.chain_id, o.owner, p.grain, p.bucket, p.counted, sum(p.count)
    from pruned_sums p ${BOTH} where p.chain_id = ${chainId}::bigint and p.token = '' group by 1, 2, 3, 4, 5
    on conflict (chain_id, provider, grain, bucket, type) do update set count = r.count + excluded.count`.execute(db);
  for (const [table, span] of [
    ["rollup_providers", DAY_SEC],
    ["rollup_provider_spans", FOUR_WEEKS_SEC],
  ] as const) {
    await sql`insert into ${sql.table(table)} as r (chain_id, token, bucket, provider, count, amount)
      select p.chain_id, p.token, p.bucket - p.bucket % ${span}::bigint, p.provider, sum(p.count), sum(p.amount)
      from pruned_sums p
      where p.chain_id = ${chainId}::bigint and p.grain = ${DAY_SEC}::int and p.token <> '' and p.counted <> ${REFUNDS}
      group by 1, 2, 3, 4
      on conflict (chain_id, token, bucket, provider) do update set ${added}`.execute(db);
  }
  await addPrunedPayers(chainId).execute(db);
  await sql`insert into rollup_provider_plans as r (chain_id, provider, grain, bucket, plan_id, scheme, count, amount)
    select p.chain_id, p.provider, g.grain, p.bucket - p.bucket % g.grain, p.plan_id, p.scheme, sum(p.count), sum(p.amount)
    from pruned_plans p cross join unnest(${intList(SPANS)}) g (grain)
    where p.chain_id = ${chainId}::bigint group by 1, 2, 3, 4, 5, 6
    on conflict (chain_id, provider, grain, bucket, plan_id, scheme) do update set ${added}`.execute(db);
}
