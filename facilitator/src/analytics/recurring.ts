/**
 * What recurs, from what was charged for periods: a period's price is spread over the days that it pays for, and brought to
 * 30 days. Pure, but for one expression that says how far back the rows must reach.
 */
import { type RawBuilder, sql } from "kysely";
import { DAY_SEC } from "../lib/durations";

export interface Charged {
  /** of the periods that were paid */
  readonly intervalSec: number;
  /** the day */
  readonly atSec: number;
  readonly count: number;
  readonly amount: bigint;
}

export interface RecurringPoint {
  readonly atSec: number;
  /** in 30 days */
  readonly amount: bigint;
  /** periods that ran */
  readonly count: number;
}

const MONTH_DAYS = 30n;

/** Longer periods count as this long. */
const MAX_DAYS = 1_100;

/** Days that a period pays for: at least one, and whole ones. */
const daysOf = (intervalSec: number): number => Math.min(MAX_DAYS, Math.max(1, Math.round(intervalSec / DAY_SEC)));

/** One day more than any period of that length reaches back. */
export const lookBackSec = (intervalSec: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`least(greatest(${intervalSec}, ${DAY_SEC}) + ${2 * DAY_SEC}, ${(MAX_DAYS + 2) * DAY_SEC})`;

/** Every day of the range. */
export function recurringOn(charged: readonly Charged[], fromSec: number, toSec: number): RecurringPoint[] {
  const byInterval = new Map<number, Map<number, Charged>>();
  for (const row of charged) {
    const days = byInterval.get(row.intervalSec) ?? new Map<number, Charged>();
    byInterval.set(row.intervalSec, days.set(row.atSec, row));
  }
  const points = new Map<number, { amount: bigint; count: number }>();
  for (let atSec = fromSec; atSec < toSec; atSec += DAY_SEC) points.set(atSec, { amount: 0n, count: 0 });
  for (const [intervalSec, days] of byInterval) {
    const span = daysOf(intervalSec);
    /** periods shorter than a day follow each other within it */
    const share = Math.min(1, intervalSec / DAY_SEC);
    let amount = 0n;
    let count = 0;
    for (let atSec = fromSec - (span - 1) * DAY_SEC; atSec < toSec; atSec += DAY_SEC) {
      amount += days.get(atSec)?.amount ?? 0n;
      count += days.get(atSec)?.count ?? 0;
      const ended = days.get(atSec - span * DAY_SEC);
      if (ended && atSec - span * DAY_SEC >= fromSec - (span - 1) * DAY_SEC) {
        amount -= ended.amount;
        count -= ended.count;
      }
      const point = points.get(atSec);
      if (!point) continue;
      point.amount += (amount * MONTH_DAYS) / BigInt(span);
      point.count += Math.round(count * share);
    }
  }
  return [...points].map(([atSec, sum]) => ({ atSec, ...sum }));
}
