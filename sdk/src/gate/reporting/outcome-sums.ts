/**
 * Adds up outcomes by hour, route and cause, in bounded memory: routes beyond the bound are counted together, and what
 * does not fit even then is counted as lost.
 */
import { MAX_REPORT_ENTRIES, OTHER_RESOURCES, type ReportEntryWire } from "../../facilitator/reports";
import { randomBytes, toHex } from "../../protocol";
import { HOUR_SEC } from "../../protocol/time";

/** Sums that are kept apart: beyond, routes are counted together, and beyond that nothing is. */
export const MAX_SUMS = 1_000;

const MAX_FOLDED_SUMS = 1_200;

/** The Facilitator takes no hours that are older than a day. */
const MAX_AGE_SEC = 20 * HOUR_SEC;

interface Sum {
  readonly entry: Omit<ReportEntryWire, "count" | "amount">;
  count: number;
  amount: bigint;
}

/** A report under its id. */
export interface ReportBatch {
  readonly id: string;
  readonly entries: readonly ReportEntryWire[];
  /** sent before, with an unknown outcome */
  mayHaveArrived: boolean;
}

export class OutcomeSums {
  readonly #nowSec: () => number;
  readonly #sums = new Map<string, Sum>();
  #lost = 0;

  /** @param nowSec chain time */
  constructor(nowSec: () => number) {
    this.#nowSec = nowSec;
  }

  get isEmpty(): boolean {
    return this.#sums.size === 0 && this.#lost === 0;
  }

  /** The start of the current hour, unix seconds. */
  hourNow(): number {
    const now = this.#nowSec();
    return now - (now % HOUR_SEC);
  }

  add(entry: Sum["entry"], times: number, amount: bigint): void {
    const { hour, resource, step, cause, offer, token } = entry;
    const key = [hour, step, cause, offer, token].join("|");
    const sum =
      this.#sumAt(`${resource}|${key}`, MAX_SUMS, entry) ??
      this.#sumAt(`*|${key}`, MAX_FOLDED_SUMS, { ...entry, resource: OTHER_RESOURCES });
    if (sum) {
      sum.count += times;
      sum.amount += amount;
    } else this.#lost += times;
  }

  /** Removes as many sums as fit into one report. */
  takeBatch(): ReportBatch | undefined {
    const entries: ReportEntryWire[] = [];
    if (this.#lost > 0) {
      const what = { hour: this.hourNow(), resource: OTHER_RESOURCES, step: "lost" as const };
      entries.push({ ...what, count: this.#lost, amount: "0" });
      this.#lost = 0;
    }
    // Counts that are older than the Facilitator accepts are reported under the oldest hour that it does.
    const oldestHour = this.#oldestHour();
    for (const [key, { entry, count, amount }] of this.#sums) {
      if (entries.length >= MAX_REPORT_ENTRIES) break;
      const hour = Math.max(entry.hour, oldestHour);
      entries.push({ ...entry, hour, count, amount: amount.toString() });
      this.#sums.delete(key);
    }
    if (entries.length === 0) return undefined;
    return { id: toHex(randomBytes(16)).slice(2), entries, mayHaveArrived: false };
  }

  /** Counts a batch again that the Facilitator has not counted: it was never sent, or refused for its hour alone. */
  restore({ entries }: ReportBatch): void {
    for (const { count, amount, ...entry } of entries) {
      if (entry.step === "lost") this.#lost += count;
      else this.add(entry, count, BigInt(amount));
    }
  }

  /** Gives a batch up: its counts are reported as lost. */
  lose({ entries }: ReportBatch): void {
    this.#lost += entries.reduce((total, entry) => total + entry.count, 0);
  }

  /** Returns whether the Facilitator accepts a batch no more. */
  isOld({ entries }: ReportBatch): boolean {
    return entries.some(({ hour }) => hour < this.#oldestHour());
  }

  #oldestHour(): number {
    return this.hourNow() - MAX_AGE_SEC;
  }

  #sumAt(name: string, capacity: number, entry: Sum["entry"]): Sum | undefined {
    const known = this.#sums.get(name);
    if (known) return known;
    if (this.#sums.size >= capacity) return undefined;
    const made = { entry, count: 0, amount: 0n };
    this.#sums.set(name, made);
    return made;
  }
}
