/**
 * Parses and formats token amounts and prices: `bigint` base units inside, decimal integer strings on the wire, whole
 * units only in views and in prices as people write them ("$0.05", "0.05 USDC"). Exact: no number with a fraction exists
 * on the way, and digits that the token cannot hold are refused, never cut off.
 */
import { aBigint, aNumber, aText, fieldsOf, kindOf } from "./arguments";
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

/** What a token must state before a price in decimals means an amount of it. */
export interface PricedToken {
  /** fraction digits of one whole token */
  readonly decimals?: number | undefined;
  /** as prices name it: "USDC" */
  readonly symbol?: string | undefined;
  /** "USD" where one whole token is worth one dollar: only then can a price be in dollars */
  readonly currency?: "USD" | undefined;
}

const PRICE = /^(\$?)[ \t]*(0|[1-9][0-9]{0,77})(?:\.([0-9]{1,77}))?(?:[ \t]+([A-Za-z][A-Za-z0-9.]{0,15}))?$/;

const DIGITS = /^[0-9]+$/;

const FORMS = 'write "$0.05", "0.05", "0.05 USD" or the token\'s symbol, as in "0.05 USDC"';

/**
 * Returns a price's amount in base units.
 * @throws ConfigError that names the field: no text, another form, digits alone (which could mean base units), a currency
 * or symbol that is not the token's, or more digits than the token has
 */
export function parsePrice(price: unknown, token: PricedToken, field: string): bigint {
  aText(field, "field");
  fieldsOf(token, "token");
  if (typeof price !== "string") {
    throw new ConfigError(
      `${field} is ${typeof price === "object" ? kindOf(price) : `the ${typeof price} ${String(price)}`}: a price is text, since numbers with fractions are not exact; ${FORMS}`,
    );
  }
  const bare = price.trim();
  if (DIGITS.test(bare)) {
    throw new ConfigError(
      `${field} is "${price}", which could mean base units or whole tokens: write "$${bare}" or "${bare}.00" for whole tokens, or \`amount: "${bare}"\` for base units`,
    );
  }
  const match = PRICE.exec(bare);
  if (!match) throw new ConfigError(`${field} is "${price}": ${FORMS}`);
  const [, dollar = "", whole = "", fraction = "", unit = ""] = match;
  requireUnit(price, token, field, { isDollars: dollar !== "" || unit === "" || isUsd(unit), unit });
  const { decimals } = token;
  if (decimals === undefined) {
    throw new ConfigError(
      `${field} is "${price}", but the token's decimals are not set: set token.decimals (TURNPIKE_TOKEN_DECIMALS), or use \`amount\` in base units`,
    );
  }
  if (fraction.length > decimals) {
    throw new ConfigError(
      `${field} is "${price}", which has ${fraction.length} fraction digits: the token has ${decimals}, so the rest cannot be paid; round the price yourself`,
    );
  }
  const amount = BigInt(`${whole}${fraction.padEnd(decimals, "0")}`);
  if (amount <= UINT256_MAX) return amount;
  throw new ConfigError(`${field} is "${price}": that is more than a token amount can be`);
}

/** An amount of a token: base units as a `bigint` or a safe integer, or text as people write prices, such as "$0.05". */
export type Money = bigint | number | string;

/**
 * Returns an amount in base units.
 * @throws ConfigError that names the field, as `parsePrice` and `toAmount` do; also for text of digits alone, which could
 * mean base units or whole tokens
 */
export function parseMoney(value: unknown, token: PricedToken, field: string): bigint {
  aText(field, "field");
  if (typeof value !== "string") return toAmount(value as bigint | number, field);
  const text = value.trim();
  if (!DIGITS.test(text)) return parsePrice(text, token, field);
  throw new ConfigError(
    `${field} is "${value}", which could mean base units or whole tokens: use the bigint ${text}n, or write "$${text}"`,
  );
}

const isUsd = (unit: string): boolean => unit.toUpperCase() === "USD";

/** @throws ConfigError where the price is in other money than the token */
function requireUnit(
  price: string,
  { symbol, currency }: PricedToken,
  field: string,
  { isDollars, unit }: { readonly isDollars: boolean; readonly unit: string },
): void {
  if (isDollars && currency !== "USD") {
    const remedy =
      symbol === undefined
        ? 'set token.currency to "USD" (TURNPIKE_TOKEN_CURRENCY) if it is, or use `amount` in base units'
        : `write the price in ${symbol}, or use \`amount\` in base units`;
    throw new ConfigError(`${field} is "${price}", but nothing says that one token is worth one dollar: ${remedy}`);
  }
  if (unit === "" || isUsd(unit) || unit.toUpperCase() === symbol?.toUpperCase()) return;
  const known = symbol === undefined ? "token.symbol (TURNPIKE_TOKEN_SYMBOL) is not set" : `the token is ${symbol}`;
  throw new ConfigError(`${field} is "${price}", but ${known}: name the token's own symbol`);
}
