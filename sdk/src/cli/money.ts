/** Reads the amounts that a person types, and writes amounts for people. Tokens have 6 decimals. */
import { formatAmount, isTurnpikeError, parsePrice } from "../protocol";
import { UsageError } from "./command-errors";

const BASE_UNITS = /^(0|[1-9][0-9]{0,38})units$/;

const FORMS = 'Write whole tokens with a decimal point ("0.05") or a dollar sign ("$5"), or base units ("50000units").';

/**
 * Returns an amount in base units. Digits alone could mean base units or whole tokens, and are refused.
 * @throws UsageError that names the flag
 */
export function readMoney(text: string, flag: string): bigint {
  const units = BASE_UNITS.exec(text);
  if (units?.[1] !== undefined) return BigInt(units[1]);
  if (/^[0-9]+$/.test(text)) {
    throw new UsageError(`--${flag} ${text} could mean whole tokens or base units.`, FORMS);
  }
  try {
    return parsePrice(text, { decimals: 6, currency: "USD" }, `--${flag}`);
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    throw new UsageError(`--${flag} is no amount, or has more than 6 decimals.`, FORMS);
  }
}

/** Writes an amount for people: "0.50 (500000 base units)". */
export function shownMoney(amount: bigint): string {
  return `${formatAmount(amount)} (${amount} base units)`;
}
