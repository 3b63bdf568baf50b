/**
 * Sums what fell due and was not charged at the first attempt, by outcome. Each period counts once, on the day of its
 * first failure.
 */
import { sql } from "kysely";
import type { FailedRenewalsWire } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { Db } from "../db/open";
import { DAY_SEC } from "../lib/durations";
import { type AnalyticsOptions, createRanges, type FiguresQuery, type Range, type Scope } from "./ranges";

export interface FailedRenewalFigures {
  failedRenewals(provider: Address, query: FiguresQuery): Promise<FailedRenewalsWire>;
}

/** The other outcomes are reported under another name, or belong to no record. */
const OUTCOMES = ["lost", "open", "recovered"] as const;

type Outcome = (typeof OUTCOMES)[number];

interface Row {
  readonly cause: string;
  readonly outcome: Outcome;
  readonly count: number;
  readonly amount: string;
}

export function createFailedRenewals({ db, config, clock }: AnalyticsOptions): FailedRenewalFigures {
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async failedRenewals(provider, query) {
      const { scope, unit } = scopeOf(provider, query.token);
      const range = rangeOf(query, DAY_SEC);
      const rows = await failedIn(db, { ...scope, provider }, range);
      const causes = [...new Set(rows.map(({ cause }) => cause))].map((cause) => ({
        cause,
        ...byOutcome(rows.filter((row) => row.cause === cause)),
      }));
      return {
        ...unit,
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
    select cause, outcome, count(*)::int8 as count, sum(price)::text as amount from failed_periods
    where chain_id = ${chainId} and provider = ${provider} and token = ${token}
      and failed_at >= ${fromSec} and failed_at < ${toSec} and outcome in (${sql.join([...OUTCOMES])})
    group by cause, outcome`.execute(db);
  return rows;
}
