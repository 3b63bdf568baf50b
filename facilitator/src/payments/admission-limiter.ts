/**
 * Limits how many payments may wait to be judged and bound, and for how long. Past the limit, rejects the next payment
 * before any work is done for it: an unbounded queue answers every caller too late.
 */
import type { TurnpikeError } from "turnpike/protocol";
import { refusal } from "./payment-request";

export interface AdmissionLimiter {
  /** @throws Unavailable, with a retry delay, when too many payments wait or one waits too long */
  run<T>(work: () => Promise<T>): Promise<T>;
}

export interface AdmissionLimiterOptions {
  readonly maxWaiting: number;
  readonly maxAgeMs: number;
  readonly monotonicMs: () => number;
}

const RETRY_AFTER_SEC = 2;

export function createAdmissionLimiter({
  maxWaiting,
  maxAgeMs,
  monotonicMs,
}: AdmissionLimiterOptions): AdmissionLimiter {
  /** start time of each, in order of arrival */
  const waiting = new Map<symbol, number>();

  function closed(): TurnpikeError | undefined {
    const [oldestMs] = waiting.values();
    const isSlow = oldestMs !== undefined && monotonicMs() - oldestMs > maxAgeMs;
    if (waiting.size < maxWaiting && !isSlow) return undefined;
    const message = isSlow
      ? "judging a payment takes too long: a node of RPC_URLS or the database is slow"
      : "too many payments wait to be judged";
    return refusal("Unavailable", "busy", message, { retryAfterSec: RETRY_AFTER_SEC });
  }

  return {
    async run(work) {
      const error = closed();
      if (error) throw error;
      const place = Symbol();
      waiting.set(place, monotonicMs());
      try {
        return await work();
      } finally {
        waiting.delete(place);
      }
    },
  };
}
