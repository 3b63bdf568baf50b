/** Computes when a delivery is attempted and retried. Pure. */

/** Seconds before each attempt, counted from the previous one: about 76 hours in total. */
export const DELAYS_SEC = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400] as const;

/** An event is given up at this age, however few attempts its endpoint left time for: the schedule at its longest. */
export const GIVE_UP_SEC = 84 * 3_600;

/**
 * Jitter: each wait is up to a tenth shorter or longer, so that a recovered receiver does not get everything at once.
 */
const JITTER = 0.1;

/** Maximum delay that a receiver can request. */
const MAX_RETRY_AFTER_SEC = 3_600;

export interface Missed {
  /** position in the schedule of the failed attempt, from 0 */
  readonly step: number;
  readonly nowMs: number;
  readonly createdAtMs: number;
  /** from 0 to 1 */
  readonly random: number;
  readonly retryAfterSec?: number | undefined;
}

/** @returns undefined after the last attempt, or when the next one would come too late */
export function nextAttempt({ step, nowMs, createdAtMs, random, retryAfterSec = 0 }: Missed): number | undefined {
  const delaySec = DELAYS_SEC[step + 1];
  if (delaySec === undefined) return undefined;
  const jittered = delaySec * (1 + JITTER * (2 * random - 1));
  const dueAtMs = Math.round(nowMs + 1_000 * Math.max(jittered, Math.min(retryAfterSec, MAX_RETRY_AFTER_SEC)));
  return dueAtMs > createdAtMs + 1_000 * GIVE_UP_SEC ? undefined : dueAtMs;
}
