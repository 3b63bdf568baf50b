/**
 * Reads what opened access by subscription: signups, resumptions and plan changes, including those that charged
 * nothing.
 */
import { sql } from "kysely";
import type { Db } from "../db/open";
import type { Begun } from "./funnel";
import { type KindSums, sumOfKinds } from "./queries";
import type { Range, Scope } from "./ranges";

/** @param sums of the same range */
export async function begunIn(db: Db, scope: Scope, range: Range, sums: KindSums): Promise<Begun> {
  const { chainId, provider, token } = scope;
  // Resumptions within a paid period charge nothing: their events are counted, not their charges.
  const resumed = sumOfKinds(sums, ["subscription.resumed"]).count;
  if (provider === undefined) {
    // The sums over all providers contain no plans.
    const { count } = sumOfKinds(sums, ["signup", "plan-change"]);
    return { signups: [{ price: undefined, count }], prices: new Set(), resumed };
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
  return {
    signups: signups.filter(({ count }) => count > 0),
    prices: new Set(signups.map(({ price }) => price)),
    resumed,
  };
}
