/**
 * Measures how far the applied blocks are behind, in seconds. Block times range from 200 ms to 12 s, so a number of
 * blocks says little. The measure is how long a block that could be applied has been waiting.
 */
import type { BlockRow } from "./applied-blocks";

export interface Lag {
  /** Records that a block of this height can be applied from now on. */
  see(target: number): void;
  /**
   * Returns the lag in seconds.
   * @param target highest block that can be applied
   * @param headSec chain time of the head
   */
  sec(target: number, headSec: number, applied: number, tip: Pick<BlockRow, "timestamp"> | undefined): number;
}

export interface LagOptions {
  readonly monotonicMs: () => number;
  readonly blockTimeMs: number;
}

/** Maximum heights whose arrival time is kept while nothing is applied. */
const MAX_WAITING = 1_000;

export function createLag({ monotonicMs, blockTimeMs }: LagOptions): Lag {
  let waiting: { readonly target: number; readonly sinceMs: number }[] = [];
  return {
    see(target) {
      const last = waiting.at(-1);
      if (last && target <= last.target) waiting = waiting.filter((one) => one.target <= target);
      if (target > (waiting.at(-1)?.target ?? Number.NEGATIVE_INFINITY) && waiting.length < MAX_WAITING)
        waiting.push({ target, sinceMs: monotonicMs() });
    },
    sec(target, headSec, applied, tip) {
      waiting = waiting.filter((one) => one.target > applied);
      if (applied >= target) return 0;
      const [oldest] = waiting;
      const waitedSec = oldest ? (monotonicMs() - oldest.sinceMs) / 1_000 : 0;
      // Was already far behind when this process started, so chain time counts; a test clock may move it by days at
      // once.
      const blocksSec = ((target - applied) * blockTimeMs) / 1_000;
      const chainSec = tip === undefined ? blocksSec : Math.max(0, headSec - tip.timestamp);
      return Math.round(Math.max(waitedSec, Math.min(blocksSec, chainSec)));
    },
  };
}
