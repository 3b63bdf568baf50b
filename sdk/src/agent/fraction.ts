/** Exact fractions, for prices that do not divide evenly. Pure. */

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
