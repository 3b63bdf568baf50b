/** Limits the requests of one address or one API key. A full bucket allows a burst; it refills evenly over a minute. */
import { TurnpikeError } from "turnpike/protocol";

export interface RateLimit {
  /** @throws RateLimited */
  take(who: string): void;
}

export const noRateLimit: RateLimit = { take: () => undefined };

/** Maximum buckets in memory: beyond it, the least recently used one is dropped. */
const MAX_REMEMBERED = 10_000;

export function createRateLimit(perMinute: number, monotonicMs: () => number): RateLimit {
  if (perMinute === 0) return noRateLimit;
  const buckets = new Map<string, { tokens: number; atMs: number }>();
  return {
    take(who) {
      const nowMs = monotonicMs();
      const { tokens, atMs } = buckets.get(who) ?? { tokens: perMinute, atMs: nowMs };
      const refilled = Math.min(perMinute, tokens + ((nowMs - atMs) * perMinute) / 60_000);
      if (refilled < 1) {
        const retryAfterSec = Math.ceil(((1 - refilled) * 60) / perMinute);
        throw new TurnpikeError("RateLimited", undefined, { retryAfterSec });
      }
      buckets.delete(who);
      buckets.set(who, { tokens: refilled - 1, atMs: nowMs });
      const oldest = buckets.size > MAX_REMEMBERED ? buckets.keys().next().value : undefined;
      if (oldest !== undefined) buckets.delete(oldest);
    },
  };
}
