/**
 * Computes how many subscriptions are active at a time, and their recurring amount. Uses the sums of subscriptions
 * served until a later day, and the rows themselves for today. ACTIVE matches the contract: neither cancelled nor
 * paused, and in the paid period or, unless it ends, in its grace.
 */
import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/open";
import { idList } from "../db/sql";
import { DAY_SEC, FOUR_WEEKS_SEC } from "../lib/durations";
import type { Scope } from "./ranges";
import { bucketOf, EVERYONE } from "./rollups";

export interface Standing {
  readonly active: number;
  /** The active ones charge this in 30 days, base units, rounded down for each length of period. */
  readonly recurring: bigint;
}

/** When a subscription `s` of a plan `p` is served no longer, unless it is renewed. */
export const SERVED_UNTIL = sql`case when s.ending then s.paid_through
  when s.until <> 0 then least(s.paid_through + p.grace_sec, greatest(s.paid_through, s.until))
  else s.paid_through + p.grace_sec end`;

export const MONTH_SEC = 30n * BigInt(DAY_SEC);

export const inAMonth = (amount: bigint, intervalSec: number): bigint => (amount * MONTH_SEC) / BigInt(intervalSec);

export async function standing(db: Db, { chainId, provider, token }: Scope, nowSec: number): Promise<Standing> {
  const own = sql`token = ${token} ${provider === undefined ? sql`` : sql`and provider = ${provider}`}`;
  const { rows } = await sql<{ interval_sec: number; active: number; amount: string }>`
    with ${endingToday(chainId, nowSec, own)}
    select interval_sec, sum(count)::int8 as active, sum(amount) as amount from (
      select interval_sec, count, amount from rollup_standing
      where chain_id = ${chainId} and provider = ${provider ?? EVERYONE} and token = ${token}
        and bucket >= ${tomorrowOf(nowSec)}
      union all select interval_sec, 1, amount from ending_today) s
    group by interval_sec`.execute(db);
  return {
    active: rows.reduce((sum, row) => sum + row.active, 0),
    recurring: rows.reduce((sum, row) => sum + inAMonth(BigInt(row.amount), row.interval_sec), 0n),
  };
}

/** @returns by plan id; plans without subscriptions are left out */
export async function activeByPlan(
  db: Db,
  chainId: number,
  ids: readonly string[],
  nowSec: number,
): Promise<ReadonlyMap<string, number>> {
  if (ids.length === 0) return new Map();
  const { rows } = await activePlans(chainId, sql`plan_id = any(${idList(ids)})`, nowSec).execute(db);
  return new Map(rows.map(({ plan_id, active }) => [plan_id, active]));
}

/** @param own which plans */
export function activePlans(
  chainId: number,
  own: RawBuilder<unknown>,
  nowSec: number,
): RawBuilder<{ plan_id: string; active: number }> {
  const tomorrow = tomorrowOf(nowSec);
  return sql`
    with ${endingToday(chainId, nowSec, own)}
    select plan_id, sum(count)::int8 as active from (
      select r.plan_id, e.count from rollup_plan_standing r cross join unnest(r.ends) with ordinality e (count, day)
      where r.chain_id = ${chainId} and r.bucket >= ${bucketOf(tomorrow, FOUR_WEEKS_SEC)}
        and r.plan_id in (select plan_id from own) and r.bucket + (e.day - 1) * ${DAY_SEC} >= ${tomorrow}
      union all select plan_id, 1 from ending_today) s
    group by plan_id having sum(count) > 0`;
}

const tomorrowOf = (nowSec: number): number => bucketOf(nowSec, DAY_SEC) + DAY_SEC;

/**
 * Reads subscriptions that are served now but not until tomorrow, by the end of their period. Plans have few lengths of
 * grace, and each is one range of the index.
 * @param own which plans
 */
function endingToday(chainId: number, nowSec: number, own: RawBuilder<unknown>): RawBuilder<unknown> {
  const tomorrow = tomorrowOf(nowSec);
  const live = sql`s.chain_id = ${chainId} and not s.cancelled and not s.paused`;
  return sql`own as materialized (select plan_id, amount, interval_sec, grace_sec from plans where chain_id = ${chainId} and ${own}),
    ending_today as materialized (
      select o.plan_id, o.interval_sec, o.amount from (select distinct grace_sec from own) g
        cross join lateral (select s.plan_id from subscriptions s where ${live} and not s.ending and s.until = 0
          and s.paid_through > ${nowSec} - g.grace_sec and s.paid_through < ${tomorrow} - g.grace_sec) s
        join own o on o.plan_id = s.plan_id and o.grace_sec = g.grace_sec
      union all
      select o.plan_id, o.interval_sec, o.amount from subscriptions s join own o on o.plan_id = s.plan_id
        where ${live} and s.ending and s.paid_through > ${nowSec} and s.paid_through < ${tomorrow}
      union all
      select p.plan_id, p.interval_sec, p.amount from subscriptions s join own p on p.plan_id = s.plan_id
        where ${live} and not s.ending and s.until <> 0 and s.paid_through < ${tomorrow}
          and s.paid_through > ${nowSec} - (select max(grace_sec) from own)
          and ${SERVED_UNTIL} > ${nowSec} and ${SERVED_UNTIL} < ${tomorrow})`;
}
