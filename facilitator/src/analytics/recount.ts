/**
 * Compares every sum with its source: valid events and the sums of deleted ones, transactions, finer sums. The database
 * counts the sources itself, without the code that maintains the sums. Part of `reconcile`: a chart is correct as far as
 * this finds no difference.
 */
import { sql } from "kysely";
import { SCHEMES } from "turnpike/facilitator";
import type { Db } from "../db/open";
import { endingsDerived } from "./endings";
import { failedPeriodsDerived } from "./failed-periods";
import { FAILED_PAYMENTS, FAILURES, MONEY_KINDS, PERIOD_SCHEMES, REFUNDS, TRIAL, TYPES_OF_A_TOKEN } from "./rollups";
import { SERVED_UNTIL } from "./standing";

export interface WrongSum {
  readonly table:
    | `rollup_${"totals" | "plans" | "providers" | "payers" | "standing" | "plan_standing" | "costs" | "funnel"}`
    | "endings"
    | "failed_periods";
  /** the columns of its key, joined by spaces */
  readonly key: string;
  /** "count amount" and the like, null where the row is missing */
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
  "refund.settled": REFUNDS,
};

/** @param sinceSec earlier hours are not compared: their sums are kept by day only */
export async function findWrongSums(db: Db, chainId: number, sinceSec: number, limit = 20): Promise<WrongSum[]> {
  const ofEvents = await wrongByEvents(db, chainId, sinceSec, limit);
  if (ofEvents.length >= limit) return ofEvents;
  return [...ofEvents, ...(await wrongByThemselves(db, chainId, limit - ofEvents.length))];
}

async function wrongByEvents(db: Db, chainId: number, sinceSec: number, limit: number): Promise<WrongSum[]> {
  const schemes = sql.join(Object.entries(SCHEME_OF).map(([type, scheme]) => sql`(${type}, ${scheme})`));
  const { rows } = await sql<WrongSum>`
    with counted as materialized (
      select e.type, e.block_time as at, left(e.payload->>'reason', 64) as cause, coalesce(e.provider, '') as provider, e.payer, s.scheme,
        e.payload->>'token' as token, coalesce(e.payload->>'planId', '') as plan,
        case when e.payload->>'converted' = 'true' then ${TRIAL.converted}
          when e.type = 'subscription.created' and e.payload->>'intro' = 'true' then ${TRIAL.begun} end as trial,
        coalesce((case when s.scheme in ('one-time', 'overage', ${REFUNDS}) or e.type = ${FAILED_PAYMENTS} then e.payload->>'amount' else e.payload->>'charged' end)::numeric, 0) as amount
      from events e left join (values ${schemes}) s (type, scheme) on s.type = e.type
      where e.chain_id = ${chainId} and not e.reverted),
    entries as (
      select provider, at, type as kind, '' as token, '' as plan, 1 as count, 0::numeric as amount from counted
      union all select provider, at, trial, '', '', 1, 0 from counted where trial is not null
      union all select provider, at, concat(type, ' ', cause), '', '', 1, 0 from counted
        where cause is not null and type in (${sql.join([...FAILURES])})
      union all select provider, at, type, token, '', 1, case when type = ${FAILED_PAYMENTS} then amount else 0 end from counted
        where token is not null and type in (${sql.join([...TYPES_OF_A_TOKEN])})
      union all select provider, at, scheme, token, plan, 1, amount from counted
        where scheme is not null and amount > 0 and token is not null),
    totals as (
      select o.owner as provider, g.grain, at - at % g.grain as bucket, kind, e.token,
        case when g.grain = 86400 and kind in (${sql.join([...PERIOD_SCHEMES])}) then coalesce(p.interval_sec, 0) else 0 end as interval_sec,
        count, e.amount
      from entries e left join plans p on p.chain_id = ${chainId} and p.plan_id = e.plan
      cross join lateral (select '' as owner union select e.provider) o cross join (values (3600), (86400)) g (grain)
      where g.grain = 86400 or kind in (${sql.join([...MONEY_KINDS])})
      union all select provider, grain, bucket, kind, token, interval_sec, count, amount from pruned_totals
        where chain_id = ${chainId}),
    plan_days as (
      select provider, at - at % 86400 as bucket, plan, kind, token, count, amount from entries
        where plan <> '' and provider <> ''
      union all select provider, bucket, plan_id, kind, token, count, amount from pruned_plans where chain_id = ${chainId}),
    paid as (
      select provider, token, payer, x.* from counted cross join lateral (
          select 1 as count, amount, 0 as refunds, 0::numeric as refunded where scheme <> ${REFUNDS}
          union all select 0, 0, 1, amount where scheme = ${REFUNDS}) x
        where counted.amount > 0 and token is not null and provider <> '' and payer is not null
      union all select provider, token, payer, count, amount, refunds, refunded from pruned_payers where chain_id = ${chainId}),
    truth (source, key, value) as (
      select 'rollup_totals', concat_ws(' ', provider, grain, bucket, kind, token, interval_sec), concat(sum(count), ' ', sum(amount))
        from totals where grain = 86400 or bucket - bucket % 86400 >= ${sinceSec}
        group by provider, grain, bucket, kind, token, interval_sec
      union all select 'rollup_plans', concat_ws(' ', provider, bucket, plan, kind, token), concat(sum(count), ' ', sum(amount))
        from plan_days group by provider, bucket, plan, kind, token
      union all select 'rollup_providers', concat_ws(' ', token, bucket, provider), concat(sum(count), ' ', sum(amount))
        from totals where grain = 86400 and provider <> '' and kind in (${sql.join([...SCHEMES])}) group by token, bucket, provider
      union all select 'rollup_payers', concat_ws(' ', provider, token, payer),
          concat_ws(' ', sum(count), sum(amount), sum(refunds), sum(refunded))
        from paid group by provider, token, payer),
    kept (source, key, value) as (
      select 'rollup_totals', concat_ws(' ', provider, grain, bucket, kind, token, interval_sec), concat(count, ' ', amount)
        from rollup_totals where chain_id = ${chainId} and (grain = 86400 or bucket - bucket % 86400 >= ${sinceSec})
          and (count <> 0 or amount <> 0)
      union all select 'rollup_plans', concat_ws(' ', provider, bucket, plan_id, kind, token), concat(count, ' ', amount)
        from rollup_plans where chain_id = ${chainId} and (count <> 0 or amount <> 0)
      union all select 'rollup_providers', concat_ws(' ', token, bucket, provider), concat(count, ' ', amount)
        from rollup_providers where chain_id = ${chainId} and (count <> 0 or amount <> 0)
      union all select 'rollup_payers', concat_ws(' ', provider, token, payer), concat_ws(' ', count, amount, refunds, refunded)
        from rollup_payers where chain_id = ${chainId} and (count <> 0 or amount <> 0 or refunds <> 0 or refunded <> 0))
    select coalesce(k.source, t.source) as "table", coalesce(k.key, t.key) as key, k.value as stored, t.value as counted
    from kept k full join truth t on t.source = k.source and t.key = k.key
    where k.value is distinct from t.value order by 1, 2 limit ${limit}`.execute(db);
  return rows;
}

/**
 * Compares the sums that derive from no event:
 * - costs with the transactions and the sums of the deleted ones, all days together: blocks are not kept for ever, and a transaction that moved nothing
 *   has no other time
 * - service end dates with the subscriptions
 * - failed periods and ends of subscriptions with the rows they derive from
 * - gates' reports, which are kept as sums only, with each other
 */
async function wrongByThemselves(db: Db, chainId: number, limit: number): Promise<WrongSum[]> {
  const { rows } = await sql<WrongSum>`
    with ends as (
      select p.provider, p.token, s.plan_id, p.interval_sec, p.amount, t.at - t.at % 86400 as day
      from subscriptions s join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id
      cross join lateral (select ${SERVED_UNTIL} as at) t
      where s.chain_id = ${chainId} and not s.cancelled and not s.paused),
    truth (source, key, value) as (
      select 'rollup_standing', concat_ws(' ', o.owner, token, day, interval_sec), concat(count(*), ' ', sum(amount))
        from ends cross join lateral (values (''), (provider)) o (owner) group by o.owner, token, day, interval_sec
      union all select 'rollup_plan_standing', concat_ws(' ', plan_id, day), count(*)::text from ends group by plan_id, day
      union all select 'failed_periods', concat_ws(' ', id_hash, paid_through),
          concat_ws(' ', provider, token, failed_at, cause, price, outcome)
        from (${failedPeriodsDerived(chainId)}) f
      union all select 'endings', concat_ws(' ', id_hash, seq), (provider, payer, token, created_at, ended_at, next_at, back_at)::text
        from (${endingsDerived(chainId)}) e
      union all select 'rollup_costs', purpose, concat_ws(' ', sum(transactions), sum(failed), sum(items), sum(gas), sum(wei))
        from (select purpose, count(*) as transactions, count(*) filter (where success is not true) as failed,
            sum(coalesce(e.items, 0)) as items, sum(gas_used) as gas, sum(gas_used * gas_price_wei) as wei
          from transactions t left join (
            select transaction, block_number, count(*) as items from events
            where chain_id = ${chainId} and not reverted and type in (${sql.join(Object.keys(SCHEME_OF))}) group by 1, 2) e
            on e.transaction = t.hash and e.block_number = t.block_number
          where chain_id = ${chainId} and is_final and status = 'mined' and gas_used is not null
            and gas_price_wei is not null group by purpose
          union all select purpose, transactions, failed, items, gas, wei from pruned_costs where chain_id = ${chainId}) c
        group by purpose
      union all select 'rollup_funnel', concat_ws(' ', provider, d.days, bucket - bucket % (d.days * 86400), resource, token, step,
          cause, offer), concat(sum(count), ' ', sum(amount))
        from rollup_funnel cross join (values (7), (28)) d (days) where chain_id = ${chainId} and grain = 86400
        group by provider, d.days, bucket - bucket % (d.days * 86400), resource, token, step, cause, offer
      union all select 'rollup_funnel', concat_ws(' ', provider, 'resources', bucket, token, step, cause, offer),
          concat(sum(count), ' ', sum(amount))
        from rollup_funnel where chain_id = ${chainId} and grain = 86400 and resource <> ''
        group by provider, bucket, token, step, cause, offer
      union all select 'rollup_funnel', concat_ws(' ', 'everyone', bucket, token, step, cause, offer),
          concat(sum(count), ' ', sum(amount))
        from rollup_funnel where chain_id = ${chainId} and grain = 86400 and resource = '' and provider <> ''
        group by bucket, token, step, cause, offer),
    kept (source, key, value) as (
      select 'rollup_standing', concat_ws(' ', provider, token, bucket, interval_sec), concat(count, ' ', amount)
        from rollup_standing where chain_id = ${chainId} and (count <> 0 or amount <> 0)
      union all select 'rollup_plan_standing', concat_ws(' ', plan_id, bucket + (e.day - 1) * 86400), e.count::text
        from rollup_plan_standing cross join unnest(ends) with ordinality e (count, day)
        where chain_id = ${chainId} and e.count <> 0
      union all select 'failed_periods', concat_ws(' ', id_hash, paid_through),
          concat_ws(' ', provider, token, failed_at, cause, price, outcome)
        from failed_periods where chain_id = ${chainId}
      union all select 'endings', concat_ws(' ', id_hash, seq), (provider, payer, token, created_at, ended_at, next_at, back_at)::text
        from endings where chain_id = ${chainId}
      union all select 'rollup_costs', purpose, concat_ws(' ', sum(transactions), sum(failed), sum(items), sum(gas), sum(wei))
        from rollup_costs where chain_id = ${chainId} group by purpose
      union all select 'rollup_funnel', concat_ws(' ', provider, grain / 86400, bucket, resource, token, step, cause, offer),
          concat(count, ' ', amount)
        from rollup_funnel where chain_id = ${chainId} and grain > 86400
      union all select 'rollup_funnel', concat_ws(' ', provider, 'resources', bucket, token, step, cause, offer),
          concat(count, ' ', amount)
        from rollup_funnel where chain_id = ${chainId} and grain = 86400 and resource = '' and provider <> ''
      union all select 'rollup_funnel', concat_ws(' ', 'everyone', bucket, token, step, cause, offer),
          concat(count, ' ', amount)
        from rollup_funnel where chain_id = ${chainId} and grain = 86400 and resource = '' and provider = '')
    select coalesce(k.source, t.source) as "table", coalesce(k.key, t.key) as key, k.value as stored, t.value as counted
    from kept k full join truth t on t.source = k.source and t.key = k.key
    where k.value is distinct from t.value order by 1, 2 limit ${limit}`.execute(db);
  return rows;
}
