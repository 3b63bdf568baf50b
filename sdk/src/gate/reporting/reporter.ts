/**
 * Counts the outcomes of requests and reports the sums to the Facilitator at intervals. No request waits for a report.
 * Memory is bounded; what cannot be reported in time is counted as lost. Knows no payer and no single request.
 */
import type { FacilitatorClient } from "../../facilitator/client";
import { MAX_REPORT_ENTRIES, OTHER_RESOURCES, type ReportEntryWire, type ReportStep } from "../../facilitator/reports";
import { isTurnpikeError, randomBytes, type TurnpikeError, toHex } from "../../protocol";
import { HOUR_SEC } from "../../protocol/durations";

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
  /** Returns whether to count the next request: every `sampleEvery`-th is counted, with that weight. */
  samples(): boolean;
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
  readonly everyMs: number;
  readonly sampleEvery: number;
  readonly timeoutMs?: number;
  readonly closeMs?: number;
}

/** Sums that are kept apart: beyond, routes are counted together, and beyond that nothing is. */
export const MAX_SUMS = 1_000;

const MAX_FOLDED_SUMS = 1_200;

const TIMEOUT_MS = 5_000;

const CLOSE_MS = 2_000;

/** The Facilitator takes no hours that are older than a day. */
const MAX_AGE_SEC = 20 * HOUR_SEC;

const MAX_BACKOFF = 16;

interface Sum {
  readonly entry: Omit<ReportEntryWire, "count" | "amount">;
  count: number;
  amount: bigint;
}

interface Batch {
  readonly id: string;
  readonly entries: readonly ReportEntryWire[];
  /** sent before, with an unknown outcome */
  mayHaveArrived: boolean;
}

export function createReporter(options: ReporterOptions): Reporter {
  const { send, nowSec, everyMs, sampleEvery, timeoutMs = TIMEOUT_MS, closeMs = CLOSE_MS } = options;
  const sums = new Map<string, Sum>();
  let lost = 0;
  let seen = 0;
  /** a batch that may have arrived: sent again under the same id, before any other */
  let unsent: Batch | undefined;
  let sending: Promise<boolean> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let failures = 0;
  let isClosed = false;
  const stop = new AbortController();

  function hourNow(): number {
    const now = nowSec();
    return now - (now % HOUR_SEC);
  }

  function wakeLater(): void {
    if (timer || isClosed) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        void flush().finally(() => {
          if (unsent || sums.size > 0 || lost > 0) wakeLater();
        });
      },
      everyMs * Math.min(2 ** failures, MAX_BACKOFF),
    );
    timer.unref?.();
  }

  function count({ step, resource, cause, offer, token, amount = 0n }: Observation): void {
    const what = { step, ...(cause && { cause }), ...(offer && { offer }), ...(token && { token }) };
    add({ hour: hourNow(), resource, ...what }, sampleEvery, amount * BigInt(sampleEvery));
    wakeLater();
  }

  function add(entry: Sum["entry"], times: number, amount: bigint): void {
    const { hour, resource, step, cause, offer, token } = entry;
    const key = [hour, step, cause, offer, token].join("|");
    const sum = sumAt(`${resource}|${key}`, MAX_SUMS, resource) ?? sumAt(`*|${key}`, MAX_FOLDED_SUMS, OTHER_RESOURCES);
    if (sum) {
      sum.count += times;
      sum.amount += amount;
    } else lost += times;

    function sumAt(name: string, capacity: number, counted: string): Sum | undefined {
      const known = sums.get(name);
      if (known) return known;
      if (sums.size >= capacity) return undefined;
      const made = { entry: { ...entry, resource: counted }, count: 0, amount: 0n };
      sums.set(name, made);
      return made;
    }
  }

  /** Counts a batch again that the Facilitator has not counted: it was never sent, or refused for its hour alone. */
  function restore({ entries }: Batch): void {
    for (const { count: times, amount, ...entry } of entries) {
      if (entry.step === "lost") lost += times;
      else add(entry, times, BigInt(amount));
    }
  }

  function nextBatch(): Batch | undefined {
    const entries: ReportEntryWire[] = [];
    if (lost > 0) {
      const what = { hour: hourNow(), resource: OTHER_RESOURCES, step: "lost" as const };
      entries.push({ ...what, count: lost, amount: "0" });
      lost = 0;
    }
    // Counts that are older than the Facilitator accepts are reported under the oldest hour that it does.
    const oldestHour = hourNow() - MAX_AGE_SEC;
    for (const [key, { entry, count: times, amount }] of sums) {
      if (entries.length >= MAX_REPORT_ENTRIES) break;
      const hour = Math.max(entry.hour, oldestHour);
      entries.push({ ...entry, hour, count: times, amount: amount.toString() });
      sums.delete(key);
    }
    if (entries.length === 0) return undefined;
    return { id: toHex(randomBytes(16)).slice(2), entries, mayHaveArrived: false };
  }

  /** @returns whether there may be more to send now */
  async function sendOne(): Promise<boolean> {
    unsent ??= nextBatch();
    if (!unsent) return false;
    const batch = unsent;
    try {
      await send(batch.id, batch.entries, AbortSignal.any([stop.signal, AbortSignal.timeout(timeoutMs)]));
      failures = 0;
    } catch (error) {
      failures += 1;
      const isRefused = isTurnpikeError(error) && !error.retryable;
      if (isRefused && !batch.mayHaveArrived && isOfHour(error)) {
        unsent = undefined;
        restore(batch);
        return false;
      }
      batch.mayHaveArrived ||= !isRefused;
      const isOld = batch.entries.some(({ hour }) => hour < hourNow() - MAX_AGE_SEC);
      // What was refused is refused again.
      if (!isOld && !isRefused) return false;
      lost += batch.entries.reduce((total, entry) => total + entry.count, 0);
    }
    unsent = undefined;
    return failures === 0;
  }

  async function flush(): Promise<void> {
    do {
      sending ??= sendOne().finally(() => {
        sending = undefined;
      });
    } while (await sending);
  }

  return {
    samples: () => seen++ % sampleEvery === 0,
    count,
    flush,
    async close() {
      if (isClosed) return;
      isClosed = true;
      clearTimeout(timer);
      const tooLate = setTimeout(() => stop.abort(), closeMs);
      await flush();
      clearTimeout(tooLate);
    },
  };
}

/** Returns whether a report was refused for its hour: the Facilitator's clock is ahead of this gate's. */
const isOfHour = ({ details }: TurnpikeError): boolean =>
  typeof details.field === "string" && /^entries\.\d+\.hour$/.test(details.field);

/** Sends reports to a Facilitator. @throws the Facilitator's refusal, or Unavailable */
export function sendTo(client: Pick<FacilitatorClient, "report">): ReporterOptions["send"] {
  return async (id, entries, signal) => {
    const outcome = await client.report({ id, entries: [...entries] }, { signal });
    if (outcome.kind === "refused") throw outcome.error;
  };
}
