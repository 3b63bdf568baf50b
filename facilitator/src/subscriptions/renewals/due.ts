/**
 * Computes when a renewal is attempted and retried. Pure, in chain time alone. `p` is paidThrough, `g` grace, `i`
 * interval. A period is collectable from p (inclusive) to p + i (exclusive), and served until p + g.
 */
export interface DueTerms {
  /** p, unix seconds */
  readonly paidThroughSec: number;
  readonly intervalSec: number;
  readonly graceSec: number;
}

/** The state of a due subscription at a time. */
export type Stage = "early" | "in_grace" | "past_due" | "lapsed";

export function stageAt({ paidThroughSec: p, intervalSec, graceSec }: DueTerms, nowSec: number): Stage {
  if (nowSec < p) return "early";
  if (nowSec < p + graceSec) return "in_grace";
  return nowSec < p + intervalSec ? "past_due" : "lapsed";
}

const HOUR = 3_600;

const DAY = 24 * HOUR;

/** Limits the wait after the n-th failed attempt: an absolute maximum, and a fraction of the interval. */
const STEPS = [
  { sec: HOUR, fraction: 24 },
  { sec: 6 * HOUR, fraction: 8 },
  { sec: DAY, fraction: 4 },
] as const;

/** How long before the end of grace, and before p + i, the last attempt is made: enough for a few blocks. */
function marginSec(intervalSec: number): number {
  return Math.max(1, Math.min(60, Math.floor(intervalSec / 100)));
}

/**
 * Returns when to check the subscription next, after `attempts` failures of which the last was at `nowSec`. The result
 * never skips these times:
 * - the last moment at which an attempt can keep it served
 * - the last moment at which an attempt can succeed
 * - the two boundaries at which its state changes
 * @param attempts from 1
 */
export function nextLookSec(terms: DueTerms, attempts: number, nowSec: number): number {
  const { paidThroughSec: p, intervalSec, graceSec } = terms;
  const step = STEPS[Math.min(attempts, STEPS.length) - 1] ?? STEPS[0];
  const waitSec = Math.max(1, Math.min(step.sec, Math.floor(intervalSec / step.fraction)));
  const margin = marginSec(intervalSec);
  const marks = [p + graceSec - margin, p + graceSec, p + intervalSec - margin, p + intervalSec];
  const nextMark = marks.filter((mark) => mark > nowSec).sort((a, b) => a - b)[0];
  return nextMark === undefined ? nowSec + waitSec : Math.min(nowSec + waitSec, nextMark);
}
