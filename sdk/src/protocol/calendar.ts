/** Computes where periods end: in seconds, or in calendar months (UTC). @see contracts/libraries/Standing.sol */
import { aNumber, fieldsOf } from "./arguments";
import { DAY_SEC } from "./time";

/** How long a month counts where a period in months needs a length in seconds, for display and comparison only. */
export const NOMINAL_MONTH_SEC = 30 * DAY_SEC;

/** The length of a plan's periods. */
export interface PeriodLength {
  /** seconds; with `months` a nominal length, 30 days for each month */
  readonly intervalSec: number;
  /** calendar months in one period; 0: periods are counted in seconds */
  readonly months: number;
}

/** A period's length on the wire. */
export interface Period {
  readonly unit: "second" | "month";
  readonly count: number;
}

function numbersOf<T extends PeriodLength>(length: T, field: string): T {
  const { intervalSec, months } = fieldsOf(length, field);
  aNumber(intervalSec, `${field}.intervalSec`);
  aNumber(months, `${field}.months`);
  return length;
}

/** Returns a plan's period as it is written on the wire. */
export function periodOf(length: PeriodLength): Period {
  const { intervalSec, months } = numbersOf(length, "length");
  return months > 0 ? { unit: "month", count: months } : { unit: "second", count: intervalSec };
}

/** Names a period's length in a sentence: "3 months", "86400 s". */
export function periodText(length: PeriodLength): string {
  const { intervalSec, months } = numbersOf(length, "length");
  if (months === 0) return `${intervalSec} s`;
  return months === 1 ? "month" : `${months} months`;
}

/** Returns the length of a period in the two forms of {@link PeriodLength}. */
export function lengthOf(period: Period): PeriodLength {
  const { unit, count } = fieldsOf(period, "period");
  aNumber(count, "period.count");
  return unit === "month"
    ? { intervalSec: count * NOMINAL_MONTH_SEC, months: count }
    : { intervalSec: count, months: 0 };
}

/** A period's end, and the day of the month that later periods start on. */
export interface PeriodEnd {
  /** unix seconds, exclusive */
  readonly endSec: number;
  /** 1 to 31; 0 for a period in seconds */
  readonly anchorDay: number;
}

/**
 * One period from `startSec` on. A period in months ends on the anchor's day, or its month's last one, at the start's
 * time of day. The anchor is the day on which it starts; a start on a month's last day keeps a larger anchor.
 */
export function periodFrom(startSec: number, length: PeriodLength, anchorDay: number): PeriodEnd {
  aNumber(startSec, "startSec");
  const { intervalSec, months } = numbersOf(length, "length");
  aNumber(anchorDay, "anchorDay");
  if (months === 0) return { endSec: startSec + intervalSec, anchorDay: 0 };
  const month = monthOf(startSec);
  const day = new Date(startSec * 1_000).getUTCDate();
  const anchor = anchorDay > day && day === daysIn(month) ? anchorDay : day;
  return { endSec: timeIn(month + months, anchor, startSec), anchorDay: anchor };
}

/** A paid period, and where it is in the calendar. */
export interface PaidPeriod extends PeriodLength {
  /** unix seconds, exclusive */
  readonly paidThroughSec: number;
  readonly anchorDay: number;
}

function paidOf(period: PaidPeriod): PaidPeriod {
  const { paidThroughSec, anchorDay } = numbersOf(period, "period");
  aNumber(paidThroughSec, "period.paidThroughSec");
  aNumber(anchorDay, "period.anchorDay");
  return period;
}

/** The end of the period after the paid one when it is collected in time; unix seconds. */
export function nextBoundarySec(period: PaidPeriod): number {
  const { paidThroughSec, intervalSec, months, anchorDay } = paidOf(period);
  if (months === 0) return paidThroughSec + intervalSec;
  return timeIn(monthOf(paidThroughSec) + months, anchorDay, paidThroughSec);
}

/** The length of the paid period itself, seconds. */
export function periodLengthSec(period: PaidPeriod): number {
  const { paidThroughSec, intervalSec, months, anchorDay } = paidOf(period);
  if (months === 0) return intervalSec;
  return paidThroughSec - timeIn(monthOf(paidThroughSec) - months, anchorDay, paidThroughSec);
}

/** Months since the year 0. */
function monthOf(timeSec: number): number {
  const date = new Date(timeSec * 1_000);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

function daysIn(month: number): number {
  return new Date(Date.UTC(Math.floor(month / 12), (month % 12) + 1, 0)).getUTCDate();
}

/** The day of a month, or its last one, at the time of day of `timeSec`. */
function timeIn(month: number, day: number, timeSec: number): number {
  const startOfDay = Date.UTC(Math.floor(month / 12), month % 12, Math.min(day, daysIn(month)));
  return startOfDay / 1_000 + (timeSec % DAY_SEC);
}
