/**
 * Limits how many payments may wait to be judged and bound, and for how long. Past the limit, rejects the next payment
 * before any work is done for it: an unbounded queue answers every caller too late. Towards the limit, rejects those of
 * payers and providers that already hold more than their share.
 */
import type { TurnpikeError } from "turnpike/protocol";
import { FairShares, type Party } from "../lib/fair-shares";
import { refusal } from "./payment-request";

export interface AdmissionLimiter {
  /** @throws Unavailable, with a retry delay, when too many payments wait or one waits too long */
  run<T>(party: Party, work: () => Promise<T>): Promise<T>;
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
  const shares = new FairShares();

  function closed(party: Party): TurnpikeError | undefined {
    const [oldestMs] = waiting.values();
    const age = oldestMs === undefined ? 0 : (monotonicMs() - oldestMs) / maxAgeMs;
    const fill = Math.max(waiting.size / maxWaiting, age);
    if (shares.mayEnter(party, fill)) return undefined;
    return refusal("Unavailable", "busy", messageOf(fill, age), { retryAfterSec: RETRY_AFTER_SEC });
  }

  return {
    async run(party, work) {
      const error = closed(party);
      if (error) throw error;
      const place = Symbol();
      waiting.set(place, monotonicMs());
      shares.enter(party);
      try {
        return await work();
      } finally {
        waiting.delete(place);
        shares.leave(party);
      }
    },
  };
}

function messageOf(fill: number, age: number): string {
  if (fill < 1) return "too many payments of this payer or provider wait to be judged";
  return age >= 1
    ? "judging a payment takes too long: a node of RPC_URLS or the database is slow"
    : "too many payments wait to be judged";
}
