/**
 * Compares every sum with what the events that stand say, counted by the database itself and not by the code that keeps
 * the sums. Part of `reconcile`: a chart can be trusted as far as this finds nothing.
 */
import { sql } from "kysely";
import type { Db } from "../store/open";

export interface WrongSum {
  readonly table: "rollup_volume" | "rollup_plans" | "rollup_payers" | "rollup_events";
  /** the columns of its key, joined by spaces */
  readonly key: string;
  /** "count amount", null where the row is missing */
  readonly stored: string | null;
  readonly counted: string | null;
}

const SCHEME_OF: Readonly<Record<string, string>> = {
  "payment.settled": "one-time",
  "subscription.created": "signup",
  "subscription.renewed": "renewal",
  "subscription.resumed": "resume",
  "subscription.plan_changed": "plan-change",
  "allowance.debited": "overage",
};

/** @param sinceSec hours before it are not compared: their sums are kept by day only */
export async function findWrongSums(db: Db, chainId: number, sinceSec: number, limit = 20): Promise<WrongSum[]> {
  const schemes = sql.join(Object.entries(SCHEME_OF).map(([type, scheme]) => sql`(${type}, ${scheme})`));
  const { rows } = await sql<WrongSum>`
    with counted as materialized (
      select e.type, e.block_time as at, coalesce(e.provider, '') as provider, e.payer, s.scheme,
        e.payload->>'token' as token, coalesce(e.payload->>'planId', '') as plan,
        coalesce((case when s.scheme in ('one-time', 'overage') then e.payload->>'amount' else e.payload->>'charged' end)::numeric, 0) as amount
      from events e left join (values ${schemes}) s (type, scheme) on s.type = e.type
      where e.chain_id = ${chainId} and not e.reverted),
    owned as (
      select c.*, o.owner from counted c cross join lateral (select '' as owner union select c.provider) o),
    bucketed as (
      select o.*, g.grain, at - at % g.grain as bucket from owned o cross join (values (3600), (86400)) g (grain)
      where g.grain = 86400 or at - at % 86400 >= ${sinceSec}),
    truth (source, key, value) as (
      select 'rollup_volume', concat_ws(' ', owner, grain, bucket, token, scheme), concat(count(*), ' ', sum(amount))
        from bucketed where scheme is not null and amount > 0 and token is not null group by owner, grain, bucket, token, scheme
      union all select 'rollup_plans', concat_ws(' ', plan, at - at % 86400, token, scheme), concat(count(*), ' ', sum(amount))
        from counted where scheme is not null and amount > 0 and token is not null and plan <> '' group by plan, at - at % 86400, token, scheme
      union all select 'rollup_payers', concat_ws(' ', provider, token, payer), concat(count(*), ' ', sum(amount))
        from counted where scheme is not null and amount > 0 and token is not null and provider <> '' and payer is not null
        group by provider, token, payer
      union all select 'rollup_events', concat_ws(' ', owner, grain, bucket, type), count(*)::text
        from bucketed group by owner, grain, bucket, type),
    kept (source, key, value) as (
      select 'rollup_volume', concat_ws(' ', provider, grain, bucket, token, scheme), concat(count, ' ', amount)
        from rollup_volume where chain_id = ${chainId} and (grain = 86400 or bucket - bucket % 86400 >= ${sinceSec})
          and (count <> 0 or amount <> 0)
      union all select 'rollup_plans', concat_ws(' ', plan_id, bucket, token, scheme), concat(count, ' ', amount)
        from rollup_plans where chain_id = ${chainId} and (count <> 0 or amount <> 0)
      union all select 'rollup_payers', concat_ws(' ', provider, token, payer), concat(count, ' ', amount)
        from rollup_payers where chain_id = ${chainId} and (count <> 0 or amount <> 0)
      union all select 'rollup_events', concat_ws(' ', provider, grain, bucket, type), count::text
        from rollup_events where chain_id = ${chainId} and count <> 0
          and (grain = 86400 or bucket - bucket % 86400 >= ${sinceSec}))
    select coalesce(k.source, t.source) as "table", coalesce(k.key, t.key) as key, k.value as stored, t.value as counted
    from kept k full join truth t on t.source = k.source and t.key = k.key
    where k.value is distinct from t.value order by 1, 2 limit ${limit}`.execute(db);
  return rows;
}
