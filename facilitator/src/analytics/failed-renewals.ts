/**
 * What fell due and was not charged at the first attempt, in money: read from the events of those periods and from how the
 * subscriptions stand, not from a sum. Each period counts once, on the day on which it first failed.
 */
import { sql } from "kysely";
import type { FailedRenewalsWire } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { Db } from "../store/open";
import { DAY_SEC } from "../store/rollups";
import type { AnalyticsOptions } from ".";
import type { Range, Scope } from "./queries";
import { createRanges, type FiguresQuery } from "./ranges";

export interface FailedRenewalFigures {
  failedRenewals(provider: Address, query: FiguresQuery): Promise<FailedRenewalsWire>;
}

type Outcome = "lost" | "open" | "recovered";

interface Row {
  readonly cause: string;
  readonly outcome: Outcome;
  readonly count: number;
  readonly amount: string;
}

/** No attempt was made before nobody could collect it any more. */
const NOT_TRIED = "NotTried";

export function createFailedRenewals({ db, config, clock }: AnalyticsOptions): FailedRenewalFigures {
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async failedRenewals(provider, query) {
      const { scope, told } = scopeOf(provider, query.token);
      const range = rangeOf(query, DAY_SEC);
      const rows = await failedIn(db, { ...scope, provider }, range);
      const causes = [...new Set(rows.map(({ cause }) => cause))].map((cause) => ({
        cause,
        ...byOutcome(rows.filter((row) => row.cause === cause)),
      }));
      return {
        ...told,
        from: range.fromSec,
        to: range.toSec,
        ...byOutcome(rows),
        causes: causes.sort(
          (a, b) => compare(BigInt(b.lost.amount), BigInt(a.lost.amount)) || (a.cause < b.cause ? -1 : 1),
        ),
      };
    },
  };
}

const compare = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

function byOutcome(rows: readonly Row[]) {
  const sumOf = (wanted: Outcome) => {
    const those = rows.filter(({ outcome }) => outcome === wanted);
    return {
      count: those.reduce((sum, { count }) => sum + count, 0),
      amount: those.reduce((sum, { amount }) => sum + BigInt(amount), 0n).toString(),
    };
  };
  return { lost: sumOf("lost"), open: sumOf("open"), recovered: sumOf("recovered") };
}

async function failedIn(
  db: Db,
  { chainId, provider, token }: Scope & { readonly provider: Address },
  { fromSec, toSec }: Range,
): Promise<Row[]> {
  const { rows } = await sql<Row>`
    with told as materialized (
      select object_id, (payload->>'paidThrough')::bigint as paid_through, type, block_time, seq,
        coalesce(left(payload->>'reason', 64), ${NOT_TRIED}) as cause, (payload->>'price')::numeric as price
      from events
      where chain_id = ${chainId} and provider = ${provider} and block_time >= ${fromSec} and not reverted
        and (type = 'subscription.expired' or (type = 'subscription.renewal_failed' and payload->>'attempt' = '1'))
        and payload->>'token' = ${token}),
    failed as (
      select * from (
        select distinct on (object_id, paid_through) object_id, paid_through, type, cause, price
        from told where block_time < ${toSec} order by object_id, paid_through, seq) first
      -- What expired in the range and failed before it counts on the day on which it failed.
      where type <> 'subscription.expired' or not exists (select 1 from events e where e.chain_id = ${chainId}
        and e.object_id = first.object_id and e.type = 'subscription.renewal_failed' and not e.reverted
        and (e.payload->>'paidThrough')::bigint = first.paid_through)),
    standing as (
      select f.cause, f.price,
        case
          when exists (select 1 from told t where t.type = 'subscription.expired' and t.object_id = f.object_id
            and t.paid_through = f.paid_through) then 'lost'
          when s.paid_through <> f.paid_through then 'recovered'
          -- It goes on under another name, which has told the same of itself.
          when s.moved_to is not null then null
          when s.cancelled or s.paused then 'lost'
          else 'open'
        end as outcome
      from failed f join subscriptions s on s.chain_id = ${chainId} and s.id_hash = f.object_id)
    select cause, outcome, count(*)::int8 as count, sum(price)::text as amount from standing
    where outcome is not null and price is not null group by cause, outcome`.execute(db);
  return rows;
}
