/** A clock that only a test moves. */
import type { Clock } from "../protocol";

export interface ManualClock extends Clock {
  /** Advances it, seconds. */
  advance(seconds: number): void;
  /** Sets it, unix seconds. */
  set(sec: number): void;
}

/**
 * Creates a clock that only the test moves.
 * @param startSec unix seconds; default a fixed time, so that tests are the same every day
 */
export function manualClock(startSec = 1_800_000_000): ManualClock {
  let sec = startSec;
  return {
    nowSec: () => sec,
    advance(seconds) {
      sec += seconds;
    },
    set(next) {
      sec = next;
    },
  };
}
