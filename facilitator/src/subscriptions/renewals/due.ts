/**
 * When a renewal is attempted, and when it is attempted again. Pure, on the chain's time alone: `p` paidThrough, `g`
 * grace, `i` interval; collectable from p (inclusive) to p + i (exclusive), served until p + g.
 */
export interface DueTerms {
  /** p, unix seconds */
  readonly paidThroughSec: number;
  readonly intervalSec: number;
  readonly graceSec: number;
}

/** Where a due subscription stands at a time. */
export type Stage = "early" | "in_grace" | "past_due" | "lapsed";

export function stageAt({ paidThroughSec: p, intervalSec, graceSec }: DueTerms, nowSec: number): Stage {
  if (nowSec < p) return "early";
  if (nowSec < p + graceSec) return "in_grace";
  return nowSec < p + intervalSec ? "past_due" : "lapsed";
}

const HOUR = 3_600;

const DAY = 24 * HOUR;

/** Wait after the n-th failed attempt: at most so long, and at most this fraction of the interval. */
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
 * When to look at the subscription next, after `attempts` failed attempts of which the last was at `nowSec`. Never passes
 * over the last moment at which an attempt can still keep it served, nor over the last at which one can succeed, nor over
 * the two boundaries themselves, at which its standing changes.
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
