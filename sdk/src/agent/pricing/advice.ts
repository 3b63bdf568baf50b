/**
 * Computes which of several ways to pay is cheapest for how many calls, with exact fractions. Pure; knows no request,
 * no policy and no ledger.
 */

/** What one way to pay costs in one period of `callsPerPeriod` calls: `base + perCall x calls`. */
export interface CostLine {
  /** base units per period, also when nothing is called */
  readonly base: Fraction;
  /** base units for each further call */
  readonly perCall: Fraction;
}

export function costAt(line: CostLine, calls: bigint): Fraction {
  return add(line.base, times(line.perCall, calls));
}

/** From `fromCalls` calls per period on, up to the next range, `index` is the cheapest line. */
export interface CheapestRange {
  readonly fromCalls: bigint;
  readonly index: number;
}

/**
 * Returns the cheapest line for every whole number of calls from 0 up. On a tie the earlier line wins.
 * @returns ranges by rising `fromCalls`, the first from 0; none for no lines
 */
export function cheapestRanges(lines: readonly CostLine[]): readonly CheapestRange[] {
  const ranges: CheapestRange[] = [];
  let index = cheapestAt(lines, 0n);
  let fromCalls = 0n;
  while (index !== undefined) {
    ranges.push({ fromCalls, index });
    const current = lines[index] as CostLine;
    // Only a line that rises more slowly can ever become strictly cheaper than the cheapest one.
    const crossings = lines.flatMap((line) => crossingOf(current, line) ?? []).filter((calls) => calls > fromCalls);
    const next = crossings.reduce<bigint | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined);
    if (next === undefined) break;
    fromCalls = next;
    index = cheapestAt(lines, next);
  }
  return ranges;
}

/** Returns the index of the cheapest line at this number of calls; on a tie the earlier one. */
export function cheapestAt(lines: readonly CostLine[], calls: bigint): number | undefined {
  let best: number | undefined;
  let least: Fraction | undefined;
  lines.forEach((line, index) => {
    const cost = costAt(line, calls);
    if (least !== undefined && compare(cost, least) >= 0) return;
    [best, least] = [index, cost];
  });
  return best;
}

/**
 * Returns the exact number of calls at which two lines cost the same: from there on `second` is the cheaper one.
 * @returns undefined when `second` does not rise more slowly, or starts no higher: then it never overtakes `first`
 */
export function breakEvenOf(first: CostLine, second: CostLine): Fraction | undefined {
  const gain = add(first.perCall, times(second.perCall, -1n));
  const lead = add(second.base, times(first.base, -1n));
  if (gain.numerator <= 0n || lead.numerator < 0n) return undefined;
  return fraction(lead.numerator * gain.denominator, lead.denominator * gain.numerator);
}

/** The smallest number of calls at which `second` is strictly cheaper. */
function crossingOf(first: CostLine, second: CostLine): bigint | undefined {
  const even = breakEvenOf(first, second);
  return even && nextWhole(even);
}
/** `numerator / denominator`, in lowest terms; the denominator is positive. Never a float. */
export interface Fraction {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** @throws RangeError for a denominator of zero */
export function fraction(numerator: bigint, denominator = 1n): Fraction {
  if (denominator === 0n) throw new RangeError("a fraction's denominator is not zero");
  const sign = denominator < 0n ? -1n : 1n;
  const common = gcd(numerator < 0n ? -numerator : numerator, denominator * sign) * sign;
  return { numerator: numerator / common, denominator: denominator / common };
}

function gcd(a: bigint, b: bigint): bigint {
  return b === 0n ? (a === 0n ? 1n : a) : gcd(b, a % b);
}

export function add(a: Fraction, b: Fraction): Fraction {
  return fraction(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);
}

export function times(a: Fraction, factor: bigint, divisor = 1n): Fraction {
  return fraction(a.numerator * factor, a.denominator * divisor);
}

/** Negative, zero or positive, as `a` is less than, equal to or more than `b`. */
export function compare(a: Fraction, b: Fraction): -1 | 0 | 1 {
  const [left, right] = [a.numerator * b.denominator, b.numerator * a.denominator];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** The smallest whole number that is not less. */
export function ceil({ numerator, denominator }: Fraction): bigint {
  const floor = numerator / denominator;
  return numerator > 0n && numerator % denominator !== 0n ? floor + 1n : floor;
}

/** The smallest whole number that is more. */
export function nextWhole(value: Fraction): bigint {
  const up = ceil(value);
  return up * value.denominator === value.numerator ? up + 1n : up;
}
