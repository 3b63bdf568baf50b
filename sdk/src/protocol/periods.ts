/**
 * Computes times: a clock that is handed in, where periods end (in seconds, or in calendar months, UTC; as
 * contracts/libraries/Standing.sol does), and a subscription's status as a pure function of its record and a time.
 */
import { aBigint, aNumber, fieldsOf, wholeOf } from "./arguments";

export const HOUR_SEC = 3_600;

export const DAY_SEC = 24 * HOUR_SEC;

/** How much two clocks may differ. */
export const CLOCK_SLACK_SEC = 60;

/** Defines the injected clock: unix seconds of the chain. */
export interface Clock {
  /** unix seconds, whole */
  nowSec(): number;
}

/** The machine's clock, for use without a chain. */
export const systemClock: Clock = { nowSec: () => Math.floor(Date.now() / 1_000) };

/**
 * Returns the time that a window is signed from: the chain's. A local chain that makes blocks on demand is behind when it
 * was quiet, and its next block is not: there the later of both counts.
 */
export const windowTimeSec = (chainSec: number, network: string): number =>
  network.startsWith("local-") ? Math.max(chainSec, systemClock.nowSec()) : chainSec;

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

/** Defines the injected clock, and names durations in seconds. */

/** In the order of the contract's enum. */
export const STATUSES = ["NONE", "ACTIVE", "PAST_DUE", "EXPIRED", "PAUSED", "CANCELLED"] as const;

/** One of {@link STATUSES}; only `ACTIVE` is served. */
export type SubscriptionStatus = (typeof STATUSES)[number];

/** What the status depends on; times in unix seconds. */
export interface SubscriptionRecord extends PeriodLength {
  readonly known: boolean;
  readonly cancelled: boolean;
  /** cancelled at the period's end */
  readonly ending: boolean;
  readonly paused: boolean;
  readonly paidThroughSec: number;
  readonly graceSec: number;
  /** the day of the month on which periods start, 1 to 31; 0 for periods in seconds */
  readonly anchorDay: number;
  /** from when on nothing is charged but debits of the paid period; 0: no end is set */
  readonly untilSec: number;
}

/** First match wins. @see Subscriptions.statusOf in contracts/Subscriptions.sol */
export function statusAt(record: SubscriptionRecord, nowSec: number): SubscriptionStatus {
  fieldsOf(record, "record");
  aNumber(nowSec, "nowSec");
  if (!record.known) return "NONE";
  const isLast = record.ending || (record.untilSec !== 0 && nowSec >= record.untilSec);
  if (record.cancelled || (isLast && nowSec >= record.paidThroughSec)) return "CANCELLED";
  if (record.paused) return "PAUSED";
  if (nowSec < record.paidThroughSec + record.graceSec) return "ACTIVE";
  if (nowSec < nextBoundarySec(record)) return "PAST_DUE";
  return "EXPIRED";
}

/** Returns whether anyone may collect the next period now. */
export function isCollectable(record: SubscriptionRecord, nowSec: number): boolean {
  fieldsOf(record, "record");
  aNumber(nowSec, "nowSec");
  const status = statusAt(record, nowSec);
  return (status === "ACTIVE" || status === "PAST_DUE") && nowSec >= record.paidThroughSec && !record.ending;
}

/** Where the next period starts when it is collected at `nowSec`: served grace is paid, unserved time is not. */
export function nextPeriodStart(record: SubscriptionRecord, nowSec: number): number {
  fieldsOf(record, "record");
  aNumber(nowSec, "nowSec");
  return nowSec < record.paidThroughSec + record.graceSec ? record.paidThroughSec : nowSec - record.graceSec;
}

/**
 * What a plan change costs now; amounts in base units. `credit` is for the unused time, rounded down; a first period by
 * voucher gives none.
 */
export function quoteChange(
  record: SubscriptionRecord & { readonly intro: boolean },
  price: bigint,
  newPrice: bigint,
  nowSec: number,
): { readonly credit: bigint; readonly charge: bigint | undefined } {
  fieldsOf(record, "record");
  aBigint(price, "price");
  aBigint(newPrice, "newPrice");
  aNumber(nowSec, "nowSec");
  const unusedSec = wholeOf(record.paidThroughSec - nowSec, "record.paidThroughSec");
  const wholeSec = wholeOf(periodLengthSec(record), "record.intervalSec");
  const credit = record.intro || wholeSec === 0n ? 0n : (price * unusedSec) / wholeSec;
  return { credit, charge: credit > newPrice ? undefined : newPrice - credit };
}

/** The grace a plan gets unless its provider names one: an hour or a thirtieth of the interval, at most half of it. */
export function defaultGraceSec(intervalSec: number): number {
  aNumber(intervalSec, "intervalSec");
  return Math.floor(Math.min(Math.max(HOUR_SEC, intervalSec / 30), intervalSec / 2));
}
