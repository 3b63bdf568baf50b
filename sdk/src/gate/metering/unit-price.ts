/** Prices units exactly: an amount for so many units, and one rounding of the total. Knows no currency but a token. */
import { UINT256_MAX } from "../../protocol/amounts";
import { ConfigError } from "../../protocol/errors";
import { type Money, type PricedToken, parseMoney } from "../../protocol/prices";

/**
 * The price of a unit: an amount for one, or an amount for `per` of them, such as
 * `{ amount: "$3", per: 1_000_000 }`. Base units as a bigint or a safe integer, or text such as "$0.05".
 */
export type UnitPriceOption = Money | { readonly amount: Money; readonly per: bigint | number };

/** An exact price: `amount` base units for `per` units. */
export interface UnitPrice {
  readonly amount: bigint;
  /** > 0 */
  readonly per: bigint;
}

/** @throws ConfigError that names the field */
export function unitPriceOf(option: UnitPriceOption, token: PricedToken, field: string): UnitPrice {
  if (typeof option !== "object" || option === null) return { amount: parseMoney(option, token, field), per: 1n };
  const amount = parseMoney(option.amount, token, `${field}.amount`);
  const per = toCount(option.per, `${field}.per`);
  if (per === 0n) throw new ConfigError(`${field}.per is 0: name the number of units that the amount is for`);
  return { amount, per };
}

/** A number of units. @throws ConfigError that names the field */
export function toCount(value: bigint | number, field: string): bigint {
  const count = Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof count === "bigint" && count >= 0n && count <= UINT256_MAX) return count;
  throw new ConfigError(`${field} is ${String(value)}: name a whole number of units, as a bigint or a safe integer`);
}

/**
 * Returns what `units` cost, in base units: rounded up, so that no use is free. Apply it to a running total, never to
 * its parts: the parts of one total would each be rounded.
 */
export function costOf({ amount, per }: UnitPrice, units: bigint): bigint {
  return (units * amount + per - 1n) / per;
}
