/** Amounts in JSON become "123n": no other text of a meter has this form. */
const BIGINT = /^-?\d+n$/;

export const toJson = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? `${value}n` : value);

export const fromJson = (_key: string, value: unknown): unknown =>
  typeof value === "string" && BIGINT.test(value) ? BigInt(value.slice(0, -1)) : value;
