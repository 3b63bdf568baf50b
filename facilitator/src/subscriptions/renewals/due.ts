/**
 * Computes when a renewal is attempted and retried. Pure, in chain time alone. `p` is paidThrough, `g` grace, `n` the
 * next boundary, `u` the subscriber's end. A period is collectable from p (inclusive) to n (exclusive), before u, and
 * served until p + g.
 */
import { nextBoundarySec, type PaidPeriod } from "turnpike/protocol";

/** p is `paidThroughSec`; n follows from the period. */
export interface DueTerms extends PaidPeriod {
  readonly graceSec: number;
  /** u, unix seconds; 0: no end is set */
  readonly untilSec: number;
}

export type Stage = "early" | "in_grace" | "past_due" | "lapsed" | "ended";

export function stageAt(terms: DueTerms, nowSec: number): Stage {
  const { paidThroughSec: p, graceSec, untilSec } = terms;
  if (nowSec < p) return "early";
  if (untilSec !== 0 && nowSec >= untilSec) return "ended";
  if (nowSec < p + graceSec) return "in_grace";
  return nowSec < nextBoundarySec(terms) ? "past_due" : "lapsed";
}

const HOUR = 3_600;

const DAY = 24 * HOUR;

/** Limits the wait after the n-th failed attempt: an absolute maximum, and a fraction of the interval. */
const STEPS = [
  { sec: HOUR, fraction: 24 },
  { sec: 6 * HOUR, fraction: 8 },
  { sec: DAY, fraction: 4 },
] as const;

/** How long before the end of grace, and before n, the last attempt is made: enough for a few blocks. */
function marginSec(intervalSec: number): number {
  return Math.max(1, Math.min(60, Math.floor(intervalSec / 100)));
}

/**
 * Returns when to check the subscription next, after `attempts` failures of which the last was at `nowSec`. The result
 * never skips these times:
 * - the last moment at which an attempt can keep it served
 * - the last moment at which an attempt can succeed
 * - the boundaries at which its state changes
 * @param attempts from 1
 */
export function nextLookSec(terms: DueTerms, attempts: number, nowSec: number): number {
  const { paidThroughSec: p, intervalSec, graceSec, untilSec } = terms;
  const step = STEPS[Math.min(attempts, STEPS.length) - 1] ?? STEPS[0];
  const waitSec = Math.max(1, Math.min(step.sec, Math.floor(intervalSec / step.fraction)));
  const margin = marginSec(intervalSec);
  const ends = [p + graceSec, nextBoundarySec(terms), ...(untilSec === 0 ? [] : [untilSec])];
  const marks = ends.flatMap((end) => [end - margin, end]);
  const nextMark = marks.filter((mark) => mark > nowSec).sort((a, b) => a - b)[0];
  return nextMark === undefined ? nowSec + waitSec : Math.min(nowSec + waitSec, nextMark);
}
