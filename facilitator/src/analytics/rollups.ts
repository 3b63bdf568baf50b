/**
 * Computes what an event adds to the sums behind charts. Pure. The sums are those of all valid events. Reverting a
 * block subtracts what its events added, so the sums can always be recomputed from the events.
 */
import { SCHEMES, type Scheme } from "turnpike/facilitator";
import type { EventRow } from "../db/tables/events";
import type { EventDraft } from "../events/event";
import { DAY_SEC, FOUR_WEEKS_SEC, HOUR_SEC, WEEK_SEC } from "../lib/durations";
import { CHARGES } from "./charges";

export const GRAINS = [HOUR_SEC, DAY_SEC] as const;

export type Grain = (typeof GRAINS)[number];

/**
 * Spans of a day, a week, and four weeks, counted from the epoch. Long ranges of the funnel, which has many rows a day,
 * read the longer spans.
 */
export const SPANS = [DAY_SEC, WEEK_SEC, FOUR_WEEKS_SEC] as const;

export type Span = (typeof SPANS)[number];

export interface SpanRange {
  readonly grain: Span;
  readonly fromSec: number;
  /** exclusive */
  readonly toSec: number;
}

/** Returns the fewest spans that compose a range of days: the longest in the middle, single days at the ends. */
export function spansOf(fromSec: number, toSec: number, spans: readonly Span[] = SPANS): SpanRange[] {
  const grain = spans.at(-1);
  if (grain === undefined || fromSec >= toSec) return [];
  const rest = spans.slice(0, -1);
  const first = fromSec + ((grain - (fromSec % grain)) % grain);
  const last = toSec - (toSec % grain);
  if (rest.length === 0) return [{ grain, fromSec, toSec }];
  if (first >= last) return spansOf(fromSec, toSec, rest);
  return [...spansOf(fromSec, first, rest), { grain, fromSec: first, toSec: last }, ...spansOf(last, toSec, rest)];
}

/** The provider of the sums of all providers. */
export const EVERYONE = "";

interface Sum {
  count: number;
  /** base units */
  amount: bigint;
}

type Keyed<K> = Readonly<K> & Sum;

/** The kind of refunds in the sums, beside the schemes. No total includes it. */
export const REFUNDS = "refund";

export type VolumeScheme = Scheme | typeof REFUNDS;

/** Kinds of money that moved. */
export const MONEY_KINDS: readonly VolumeScheme[] = [...SCHEMES, REFUNDS];

/**
 * What a provider's events of an hour add to its sums. Money has a scheme as its kind, and a token. What is counted alone
 * has none: a type of event, one of `TRIAL`, or the type of a failure and its cause. Some types are also counted by token.
 */
export type Entry = Keyed<{ provider: string; bucket: number; kind: string; token: string; plan: string }>;

export type PayerSum = Keyed<{ provider: string; token: string; payer: string; kind: "paid" | typeof REFUNDS }>;

/** Sorted by key, so that two writers lock rows in the same order. */
export interface Sums {
  readonly entries: readonly Entry[];
  readonly payers: readonly PayerSum[];
}

export type CountedEvent = Pick<EventDraft, "type" | "provider" | "payer" | "payload" | "blockTime">;

export const COUNTED_COLUMNS = ["type", "provider", "payer", "payload", "block_time"] as const;

export function countedOf({
  block_time: blockTime,
  provider,
  payer,
  ...row
}: Pick<EventRow, (typeof COUNTED_COLUMNS)[number]>): CountedEvent {
  return { ...row, blockTime, provider: provider ?? undefined, payer: payer ?? undefined };
}

const MONEY: Readonly<Record<string, { readonly scheme: VolumeScheme; readonly field: "amount" | "charged" }>> = {
  "payment.settled": { scheme: "one-time", field: "amount" },
  ...Object.fromEntries(CHARGES.map(([type, scheme, field]) => [type, { scheme, field }])),
  "refund.settled": { scheme: REFUNDS, field: "amount" },
};

/** Schemes that pay for a period rather than for use: their sum is the recurring revenue. */
export const PERIOD_SCHEMES: readonly VolumeScheme[] = ["signup", "renewal", "resume", "plan-change"];

/** Payments that can never settle: their sums have the amounts. */
export const FAILED_PAYMENTS = "payment.failed";

export const FAILURES: readonly string[] = ["subscription.renewal_failed", FAILED_PAYMENTS];

/** Types of events that are also counted by token. */
export const TYPES_OF_A_TOKEN: readonly string[] = [
  ...["created", "resumed", "cancelled", "expired"].map((what) => `subscription.${what}`),
  FAILED_PAYMENTS,
];

const MAX_CAUSE_LENGTH = 64;

export function sumsOf(events: readonly CountedEvent[], sign: 1 | -1 = 1): Sums {
  const entries = new Totals<Entry>();
  const payers = new Totals<PayerSum>();
  for (const event of events) {
    const { type, provider = EVERYONE, payer, blockTime } = event;
    const bucket = bucketOf(blockTime, HOUR_SEC);
    for (const kind of [type, ...trialsOf(event), ...causesOf(event)])
      entries.add({ provider, bucket, kind, token: "", plan: "", count: sign, amount: 0n });
    const { token: ofToken, amount: asked } = event.payload;
    if (typeof ofToken === "string" && TYPES_OF_A_TOKEN.includes(type)) {
      const amount = type === FAILED_PAYMENTS && typeof asked === "string" ? BigInt(asked) * BigInt(sign) : 0n;
      entries.add({ provider, bucket, kind: type, token: ofToken, plan: "", count: sign, amount });
    }
    const moved = moneyOf(event);
    if (!moved) continue;
    const { scheme, token, plan } = moved;
    const sum = { count: sign, amount: moved.amount * BigInt(sign) };
    entries.add({ provider, bucket, kind: scheme, token, plan, ...sum });
    const kind = scheme === REFUNDS ? REFUNDS : "paid";
    if (payer && provider !== EVERYONE) payers.add({ provider, token, payer, kind, ...sum });
  }
  return { entries: entries.sorted(), payers: payers.sorted() };
}

/** Returns the start of the hour, day or span, unix seconds; days are UTC days. */
export function bucketOf(timeSec: number, grain: Grain | Span): number {
  return timeSec - (timeSec % grain);
}

/** Counted beside the types of events: no event has one of these as its type. */
export const TRIAL = { begun: "trial.begun", converted: "trial.converted" } as const;

function trialsOf({ type, payload: { intro, converted } }: CountedEvent): readonly string[] {
  if (converted === true) return [TRIAL.converted];
  return type === "subscription.created" && intro === true ? [TRIAL.begun] : [];
}

/** The kind of a failure for this cause begins with it. */
export const causedBy = (type: string): string => `${type} `;

function causesOf({ type, payload: { reason } }: CountedEvent): readonly string[] {
  const isCaused = FAILURES.includes(type) && typeof reason === "string";
  return isCaused ? [`${causedBy(type)}${reason.slice(0, MAX_CAUSE_LENGTH)}`] : [];
}

function moneyOf({
  type,
  payload,
}: CountedEvent): { scheme: VolumeScheme; amount: bigint; token: string; plan: string } | undefined {
  const money = MONEY[type];
  if (!money) return undefined;
  const { token, planId } = payload;
  const amount = payload[money.field];
  if (typeof amount !== "string" || typeof token !== "string" || amount === "0") return undefined;
  return { scheme: money.scheme, amount: BigInt(amount), token, plan: typeof planId === "string" ? planId : "" };
}

class Totals<T extends Sum> {
  readonly #byKey = new Map<string, T>();

  add(entry: T): void {
    const { count, amount, ...key } = entry;
    const name = Object.values(key).join("|");
    const known = this.#byKey.get(name);
    if (known) {
      known.count += count;
      known.amount += amount;
    } else this.#byKey.set(name, { ...entry });
  }

  sorted(): T[] {
    return [...this.#byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum);
  }
}
