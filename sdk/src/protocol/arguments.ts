/**
 * Checks arguments by name and kind before anything reads them. No message repeats a value, which may be a secret.
 */
import { ConfigError } from "./errors";

/** @throws ConfigError that names the field */
export type OptionCheck = (value: unknown, field: string) => void;

export const kind =
  (expected: string, isOne: (value: unknown) => boolean): OptionCheck =>
  (value, field) => {
    if (!isOne(value)) throw wrongKind(value, field, expected);
  };

/** @returns the error that names what was given only by its kind */
export function wrongKind(value: unknown, field: string, expected: string): ConfigError {
  return new ConfigError(`${typeof field === "string" ? field : "a value"} is ${kindOf(value)}: use ${expected}`);
}

export const aText = kind("a text", (value) => typeof value === "string");

export const aNumber = kind("a number", (value) => typeof value === "number");

export const wholeNumber = kind(
  "a whole number, as a number or a bigint",
  (value) => typeof value === "bigint" || Number.isSafeInteger(value),
);

export const aBigint = kind("a bigint, as in 500000n", (value) => typeof value === "bigint");

export const aBytes = kind("a Uint8Array", ArrayBuffer.isView);

export const aList = kind("a list, in [ ]", Array.isArray);

export const callback = kind("a function", (value) => typeof value === "function");

/** Returns an object as it is given, to read its fields from. @throws ConfigError that names the field */
export function fieldsOf<T>(value: T, field: string): T {
  if (typeof value !== "object" || value === null) throw wrongKind(value, field, "an object, in { }");
  return value;
}

/** Returns a whole number as a bigint. @throws ConfigError that names the field */
export function wholeOf(value: bigint | number, field: string): bigint {
  wholeNumber(value, field);
  return BigInt(value);
}

/** Says what a value is without repeating it; whatever it is, this does not throw. */
export function kindOf(value: unknown): string {
  if (value === undefined) return "not set";
  if (value === null || typeof value === "boolean" || Number.isNaN(value)) return String(value);
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
