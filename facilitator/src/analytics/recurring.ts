/**
 * Computes recurring revenue from charged periods: spreads a period's price over the days that it pays for, scaled to
 * 30 days. Pure, except for one expression that says how far back the rows must reach.
 */
import { type RawBuilder, sql } from "kysely";
import { DAY_SEC } from "../lib/durations";

export interface Charged {
  readonly intervalSec: number;
  readonly atSec: number;
  readonly count: number;
  readonly amount: bigint;
}

/** A plan change ends the running period and begins one of the new plan. */
export interface PlanChange {
  readonly atSec: number;
  readonly charged: bigint;
  readonly price: bigint;
  readonly intervalSec: number;
  readonly before: { readonly atSec: number; readonly intervalSec: number; readonly amount: bigint };
}

export interface RecurringPoint {
  readonly atSec: number;
  /** in 30 days */
  readonly amount: bigint;
  readonly count: number;
}

const MONTH_DAYS = 30n;

/** Longer periods count as this long. */
const MAX_DAYS = 1_100;

/** Returns the days that a period pays for: whole ones, at least one. */
const daysOf = (intervalSec: number): number => Math.min(MAX_DAYS, Math.max(1, Math.round(intervalSec / DAY_SEC)));

/** One day more than any period reaches back. */
export const MOST_LOOK_BACK_SEC = (MAX_DAYS + 2) * DAY_SEC;

/** One day more than any period of that length reaches back. */
export const lookBackSec = (intervalSec: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`least(greatest(${intervalSec}, ${DAY_SEC}) + ${2 * DAY_SEC}, ${MOST_LOOK_BACK_SEC})`;

interface Step {
  amount: bigint;
  count: number;
}

/** Returns every day of the range. @param changes of the same days as `charged` */
export function recurringOn(
  charged: readonly Charged[],
  fromSec: number,
  toSec: number,
  changes: readonly PlanChange[] = [],
): RecurringPoint[] {
  const points = new Map<number, Step>();
  for (let atSec = fromSec; atSec < toSec; atSec += DAY_SEC) points.set(atSec, { amount: 0n, count: 0 });
  for (const [intervalSec, steps] of stepsByInterval(charged, changes)) {
    const span = daysOf(intervalSec);
    /** periods shorter than a day run one after another within it */
    const share = Math.min(1, intervalSec / DAY_SEC);
    let amount = 0n;
    let count = 0;
    for (const [atSec, step] of [...steps].sort(([a], [b]) => a - b)) {
      if (atSec > fromSec) continue;
      amount += step.amount;
      count += step.count;
    }
    for (let atSec = fromSec; atSec < toSec; atSec += DAY_SEC) {
      const step = atSec === fromSec ? undefined : steps.get(atSec);
      amount += step?.amount ?? 0n;
      count += step?.count ?? 0;
      const point = points.get(atSec);
      if (!point) continue;
      point.amount += (amount * MONTH_DAYS) / BigInt(span);
      point.count += Math.round(count * share);
    }
  }
  return [...points].map(([atSec, sum]) => ({ atSec, ...sum }));
}

/** Returns the daily change of the recurring amount, for each length of a period. */
function stepsByInterval(charged: readonly Charged[], changes: readonly PlanChange[]): Map<number, Map<number, Step>> {
  const intervals = new Map<number, Map<number, Step>>();
  const step = (intervalSec: number, atSec: number, amount: bigint, count: number): void => {
    const steps = intervals.get(intervalSec) ?? new Map<number, Step>();
    intervals.set(intervalSec, steps);
    const sum = steps.get(atSec) ?? { amount: 0n, count: 0 };
    steps.set(atSec, { amount: sum.amount + amount, count: sum.count + count });
  };
  const run = (intervalSec: number, fromSec: number, toSec: number, amount: bigint, count: number): void => {
    step(intervalSec, fromSec, amount, count);
    step(intervalSec, toSec, -amount, -count);
  };
  const endOf = (intervalSec: number, atSec: number): number => atSec + daysOf(intervalSec) * DAY_SEC;
  for (const { intervalSec, atSec, amount, count } of charged)
    run(intervalSec, atSec, endOf(intervalSec, atSec), amount, count);
  for (const { atSec, intervalSec, price, charged: paid, before } of changes) {
    // The credit for the rest of the old period does not recur.
    run(intervalSec, atSec, endOf(intervalSec, atSec), price - paid, paid > 0n ? 0 : 1);
    const end = endOf(before.intervalSec, before.atSec);
    if (atSec < end) run(before.intervalSec, atSec, end, -before.amount, -1);
  }
  return intervals;
}
