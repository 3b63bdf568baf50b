/**
 * Limits how many payments may wait to be judged and bound, and for how long. Past the limit, rejects the next payment
 * before any work is done for it: an unbounded queue answers every caller too late. Towards the limit, rejects those of
 * payers and providers that already hold more than their share.
 */
import type { TurnpikeError } from "turnpike/protocol";
import { CROWDED, FairShares, type Party } from "../lib/fair-shares";
import { Pace } from "../lib/pace";
import { refusal } from "./payment-request";

export interface AdmissionLimiter {
  /** @throws Unavailable, with a retry delay, when too many payments wait or one waits too long */
  run<T>(party: Party, work: () => Promise<T>): Promise<T>;
  readonly isCrowded: boolean;
  /** Returns why a payment of this payer and provider would be refused now. */
  refusalOf(party: Party): TurnpikeError | undefined;
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
  const waiting = new Map<symbol, number>();
  const shares = new FairShares();
  const pace = new Pace(monotonicMs);

  /** how full the limiter is: by the age of the oldest or the expected wait of the next, and by their number too */
  function fill(): { readonly age: number; readonly all: number } {
    const [oldestMs] = waiting.values();
    const oldest = oldestMs === undefined ? 0 : monotonicMs() - oldestMs;
    const age = Math.max(oldest, pace.expectedWaitMs(waiting.size)) / maxAgeMs;
    return { age, all: Math.max(waiting.size / maxWaiting, age) };
  }

  function refusalOf(party: Party): TurnpikeError | undefined {
    const { age, all } = fill();
    if (shares.mayEnter(party, all)) return undefined;
    if (all < 1) return ABOVE_SHARE;
    return age >= 1 ? SLOW : FULL;
  }

  return {
    get isCrowded() {
      return fill().all >= CROWDED;
    },
    refusalOf,
    async run(party, work) {
      const error = refusalOf(party);
      if (error) throw error;
      const place = Symbol();
      waiting.set(place, monotonicMs());
      shares.enter(party);
      pace.arrived();
      try {
        return await work();
      } finally {
        waiting.delete(place);
        shares.leave(party);
        pace.left(1, waiting.size);
      }
    },
  };
}

// Made once: an overload needs thousands, and each would record where it was made.
const busy = (message: string): TurnpikeError =>
  refusal("Unavailable", "busy", message, { retryAfterSec: RETRY_AFTER_SEC });
const ABOVE_SHARE = busy("too many payments of this payer or provider wait to be judged");
const SLOW = busy("judging a payment takes too long: a node of RPC_URLS or the database is slow");
const FULL = busy("too many payments wait to be judged");
