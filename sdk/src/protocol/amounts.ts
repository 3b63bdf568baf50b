/**
 * Parses and formats token amounts: `bigint` base units inside, decimal integer strings on the wire, whole units only
 * in views.
 */
import { aBigint, aNumber, aText, kindOf } from "./arguments";
import { decimalText } from "./decimal-text";
import { ConfigError } from "./errors";

/** The largest overage cap. */
export const UINT88_MAX = (1n << 88n) - 1n;

/** The largest plan price. */
export const UINT96_MAX = (1n << 96n) - 1n;

/** The largest token amount. */
export const UINT256_MAX = (1n << 256n) - 1n;

const DECIMAL_INTEGER = /^(0|[1-9][0-9]{0,77})$/;

/** @returns the amount, or undefined when `text` is no canonical decimal uint256. */
export function parseAmount(text: unknown): bigint | undefined {
  if (typeof text !== "string" || !DECIMAL_INTEGER.test(text)) return undefined;
  const amount = BigInt(text);
  return amount <= UINT256_MAX ? amount : undefined;
}

/**
 * An amount that a developer configured or passed: base units as a `bigint`, a safe integer or a decimal string.
 * @throws ConfigError that names the field when it is a fraction, negative, unsafe or above uint256
 */
export function toAmount(value: bigint | number | string, field: string): bigint {
  aText(field, "field");
  const amount =
    typeof value === "bigint"
      ? value
      : typeof value === "number"
        ? Number.isSafeInteger(value)
          ? BigInt(value)
          : undefined
        : parseAmount(value);
  if (amount === undefined || amount < 0n || amount > UINT256_MAX) {
    throw new ConfigError(
      `${field} is ${typeof value === "object" ? kindOf(value) : String(value)}: an amount is a whole number of the token's base units (1000000 is 1.00 of a 6-decimal token), as a bigint${typeof value === "string" ? ", a safe integer or a decimal string" : " or a safe integer"}`,
    );
  }
  return amount;
}

/** For people: 1500000 with 6 decimals is "1.50"; at least two and at most `decimals` fraction digits. */
export function formatAmount(amount: bigint, decimals = 6): string {
  aBigint(amount, "amount");
  aNumber(decimals, "decimals");
  return decimalText(amount, decimals);
}
