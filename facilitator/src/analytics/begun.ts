/**
 * Reads what opened access by subscription: signups, resumptions and plan changes, including those that charged
 * nothing.
 */
import { sql } from "kysely";
import type { Db } from "../db/open";
import { DAY_SEC } from "../lib/durations";
import type { Begun } from "./funnel";
import type { LifecycleQuery } from "./lifecycle";
import { byScheme, eventCounts, volumeOverTime } from "./queries";
import type { Range, Scope } from "./ranges";

export async function begunIn(db: Db, query: LifecycleQuery): Promise<Begun> {
  const { scope, range } = query;
  const [byPrice, resumed] = await Promise.all([signupsIn(db, scope, range), resumedIn(db, query)]);
  return { ...byPrice, resumed };
}

async function signupsIn(db: Db, scope: Scope, range: Range): Promise<Pick<Begun, "signups" | "prices">> {
  const { chainId, provider, token } = scope;
  if (provider === undefined) {
    // The sums over all providers contain no plans.
    const schemes = byScheme(await volumeOverTime(db, scope, range, DAY_SEC));
    const count = (schemes.get("signup")?.count ?? 0) + (schemes.get("plan-change")?.count ?? 0);
    return { signups: [{ price: undefined, count }], prices: new Set() };
  }
  const { rows } = await sql<{ price: string; count: number }>`
    with begun as (select plan_id, sum(count) as count from rollup_plans where chain_id = ${chainId}
        and provider = ${provider} and bucket >= ${range.fromSec} and bucket < ${range.toSec} and token = ${token}
        and kind in ('signup', 'plan-change') group by plan_id)
    select p.amount as price, coalesce(sum(b.count), 0)::int8 as count
    from plans p left join begun b on b.plan_id = p.plan_id
    where p.chain_id = ${chainId} and p.provider = ${provider} and p.token = ${token}
    group by p.amount order by p.amount desc`.execute(db);
  const signups = rows.map(({ price, count }) => ({ price: BigInt(price), count }));
  return { signups: signups.filter(({ count }) => count > 0), prices: new Set(signups.map(({ price }) => price)) };
}

/** Counts resumptions within a paid period. They charge nothing, so the sums of money do not contain them. */
async function resumedIn(db: Db, { scope, range, hasOtherTokens }: LifecycleQuery): Promise<number> {
  if (!hasOtherTokens) return (await eventCounts(db, scope, range)).get("subscription.resumed") ?? 0;
  const { chainId, provider, token } = scope;
  const isOwn = provider === undefined ? sql`provider is not null` : sql`provider = ${provider}`;
  const { rows } = await sql<{ count: number }>`
    select count(*)::int8 as count from events where chain_id = ${chainId} and ${isOwn} and not reverted
      and type in ('subscription.resumed') and block_time >= ${range.fromSec} and block_time < ${range.toSec}
      and payload->>'token' = ${token}`.execute(db);
  return rows[0]?.count ?? 0;
}
