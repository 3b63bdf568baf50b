/**
 * Counts the outcomes of requests and reports the sums to the Facilitator at intervals. No request waits for a report.
 * What cannot be reported in time is counted as lost. Knows no payer and no single request.
 */
import type { FacilitatorClient } from "../../facilitator/client";
import { MAX_REPORT_ENTRIES, OTHER_RESOURCES, type ReportEntryWire, type ReportStep } from "../../facilitator/reports";
import { isTurnpikeError, randomBytes, type TurnpikeError, toHex } from "../../protocol";
import { Deadline } from "../../protocol/exchange";
import { HOUR_SEC } from "../../protocol/periods";

/** What to count, of one request. */
export interface Observation {
  readonly step: ReportStep;
  /** path template, without a query */
  readonly resource: string;
  readonly cause?: string;
  readonly offer?: "one-time" | "subscription";
  readonly token?: string;
  /** base units */
  readonly amount?: bigint;
}

export interface Reporter {
  /** Returns at once and never throws. */
  count(observation: Observation): void;
  /** Sends what was counted so far, once. */
  flush(): Promise<void>;
  /** Sends the rest, and waits at most `closeMs` for it. */
  close(): Promise<void>;
}

export interface ReporterOptions {
  readonly send: (id: string, entries: readonly ReportEntryWire[], signal: AbortSignal) => Promise<void>;
  /** chain time */
  readonly nowSec: () => number;
  /** default 15,000 */
  readonly everyMs?: number;
  readonly timeoutMs?: number;
  readonly closeMs?: number;
}

const EVERY_MS = 15_000;

const TIMEOUT_MS = 5_000;

const CLOSE_MS = 2_000;

const MAX_BACKOFF = 16;

export const createReporter = (options: ReporterOptions): Reporter => new PeriodicReporter(options);

class PeriodicReporter implements Reporter {
  readonly #options: ReporterOptions;
  readonly #sums: OutcomeSums;
  readonly #stop = new AbortController();
  /** a batch that may have arrived: sent again under the same id, before any other */
  #unsent: ReportBatch | undefined;
  #sending: Promise<boolean> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #isClosed = false;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#sums = new OutcomeSums(options.nowSec);
  }

  count({ step, resource, cause, offer, token, amount = 0n }: Observation): void {
    const what = { step, ...(cause && { cause }), ...(offer && { offer }), ...(token && { token }) };
    this.#sums.add({ hour: this.#sums.hourNow(), resource, ...what }, 1, amount);
    this.#wakeLater();
  }

  async flush(): Promise<void> {
    do {
      this.#sending ??= this.#sendOne().finally(() => {
        this.#sending = undefined;
      });
    } while (await this.#sending);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    const tooLate = setTimeout(() => this.#stop.abort(), this.#options.closeMs ?? CLOSE_MS);
    await this.flush();
    clearTimeout(tooLate);
  }

  #wakeLater(): void {
    if (this.#timer || this.#isClosed) return;
    const { everyMs = EVERY_MS } = this.#options;
    const waitMs = everyMs * Math.min(2 ** this.#failures, MAX_BACKOFF);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.flush().finally(() => {
        if (this.#unsent || !this.#sums.isEmpty) this.#wakeLater();
      });
    }, waitMs);
    this.#timer.unref?.();
  }

  /** @returns whether there may be more to send now */
  async #sendOne(): Promise<boolean> {
    this.#unsent ??= this.#sums.takeBatch();
    const batch = this.#unsent;
    if (!batch) return false;
    try {
      await this.#send(batch);
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      const isRefused = isTurnpikeError(error) && !error.retryable;
      if (isRefused && !batch.mayHaveArrived && isOfHour(error)) {
        this.#unsent = undefined;
        this.#sums.restore(batch);
        return false;
      }
      batch.mayHaveArrived ||= !isRefused;
      // What was refused is refused again.
      if (!this.#sums.isOld(batch) && !isRefused) return false;
      this.#sums.lose(batch);
    }
    this.#unsent = undefined;
    return this.#failures === 0;
  }

  async #send({ id, entries }: ReportBatch): Promise<void> {
    const { send, timeoutMs = TIMEOUT_MS } = this.#options;
    const deadline = new Deadline(timeoutMs, this.#stop.signal);
    try {
      await send(id, entries, deadline.signal);
    } finally {
      deadline.end();
    }
  }
}

/** Returns whether a report was refused for its hour: the Facilitator's clock is ahead of this gate's. */
const isOfHour = ({ details }: TurnpikeError): boolean =>
  typeof details.field === "string" && /^entries\.\d+\.hour$/.test(details.field);

/**
 * Sends reports to a Facilitator, about the gate's network: it may serve others too.
 * @throws the Facilitator's refusal, or Unavailable
 */
export function sendTo(client: Pick<FacilitatorClient, "report">, network: string): ReporterOptions["send"] {
  return async (id, entries, signal) => {
    const outcome = await client.report({ id, entries: [...entries] }, { network, signal });
    if (outcome.kind === "refused") throw outcome.error;
  };
}

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
interface ReportBatch {
  readonly id: string;
  readonly entries: readonly ReportEntryWire[];
  /** sent before, with an unknown outcome */
  mayHaveArrived: boolean;
}

/**
 * Adds up outcomes by hour, route and cause, in bounded memory: routes beyond the bound are counted together, and what
 * does not fit even then is counted as lost.
 */
class OutcomeSums {
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
