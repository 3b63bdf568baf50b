/**
 * Keeps chain time: the newest head's timestamp plus the monotonic time since it was seen. Knows nothing of endpoints.
 */
import { type Clock, Unavailable } from "../protocol";
import { callback, fieldsOf } from "../protocol/arguments";

/** The newest block that is known. */
export interface Head {
  readonly number: number;
  readonly timestampSec: number;
}

export interface ChainClock extends Clock {
  /** Accepts a head; ignores one that is older than the newest known. */
  observe(head: Head): void;
  /** Resets the clock, after a chain was replaced or rolled back. */
  reset(): void;
  readonly head: Head | undefined;
}

/** `nowSec` throws Unavailable before the first head. `monotonicMs` is handed in by tests. */
export function createChainClock(options: { readonly monotonicMs?: () => number } = {}): ChainClock {
  const { monotonicMs = () => performance.now() } = fieldsOf(options, "options");
  callback(monotonicMs, "options.monotonicMs");
  let head: Head | undefined;
  let seenAtMs = 0;
  return {
    get head() {
      return head;
    },
    observe(next) {
      if (head && next.number < head.number) return;
      // The same head again: its age counts from when it was first seen.
      if (head && next.number === head.number && next.timestampSec === head.timestampSec) return;
      head = next;
      seenAtMs = monotonicMs();
    },
    reset() {
      head = undefined;
    },
    nowSec() {
      if (!head) throw new Unavailable("The chain's time is not known: no block has been read yet.");
      return head.timestampSec + Math.floor((monotonicMs() - seenAtMs) / 1_000);
    },
  };
}
