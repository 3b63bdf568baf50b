/**
 * How many payments may wait to be judged and bound, and for how long. Past that the next one is told to come again before
 * anything is done for it: a queue that nobody bounds answers everybody too late.
 */
import type { TurnpikeError } from "turnpike/protocol";
import { refusal } from "./claim";

export interface AdmissionLimiter {
  /** @throws Unavailable, with the time to come again after, when too many wait, or one waits too long */
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
  /** since when, in the order of coming */
  const waiting = new Map<symbol, number>();

  function closed(): TurnpikeError | undefined {
    const [oldestMs] = waiting.values();
    if (waiting.size < maxWaiting && (oldestMs === undefined || monotonicMs() - oldestMs <= maxAgeMs)) return undefined;
    return refusal("Unavailable", "busy", "too many payments wait to be judged", { retryAfterSec: RETRY_AFTER_SEC });
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
