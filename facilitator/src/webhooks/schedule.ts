/** When a delivery is attempted, and when again. Pure. */

/** Seconds before each attempt, counted from the one before: about 76 hours in all. */
export const DELAYS_SEC = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400] as const;

/** Each wait is up to a tenth shorter or longer, so that a receiver that was down does not get everything at once. */
const JITTER = 0.1;

/** A receiver may ask for patience, not for silence. */
const MAX_RETRY_AFTER_SEC = 3_600;

export interface Missed {
  /** place in the schedule of the attempt that failed, from 0 */
  readonly step: number;
  readonly nowMs: number;
  /** from 0 to 1 */
  readonly random: number;
  /** what the receiver asked for */
  readonly retryAfterSec?: number | undefined;
}

/** @returns undefined when that was the last attempt */
export function nextAttempt({ step, nowMs, random, retryAfterSec = 0 }: Missed): number | undefined {
  const delaySec = DELAYS_SEC[step + 1];
  if (delaySec === undefined) return undefined;
  const jittered = delaySec * (1 + JITTER * (2 * random - 1));
  return Math.round(nowMs + 1_000 * Math.max(jittered, Math.min(retryAfterSec, MAX_RETRY_AFTER_SEC)));
}
