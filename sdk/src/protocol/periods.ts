/** Computes a subscription's status, and what it allows, as pure functions of a record and a time. */
import { aBigint, aNumber, fieldsOf, wholeOf } from "./arguments";
import { nextBoundarySec, type PeriodLength, periodLengthSec } from "./calendar";
import { HOUR_SEC } from "./time";

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
