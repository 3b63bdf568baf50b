/**
 * Checks arguments and options by name and kind before anything reads them: what is misspelled or of another kind is
 * refused by its path, at every depth. No message repeats a value, which may be a secret.
 */
import { ConfigError } from "./errors";

/** A parsed JSON object of unknown contents. */
export type JsonObject = Record<string, unknown>;

/** Returns whether a value is a JSON object. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

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

export const anything: OptionCheck = () => undefined;

export const flag = kind("true or false", (value) => typeof value === "boolean");

/** An object whose fields another module or the application owns. */
export const anObject = kind("an object", (value) => isObject(value));

export const oneOf = (...allowed: readonly string[]): OptionCheck => {
  const names = allowed.map((name) => `"${name}"`).join(" or ");
  return (value, field) => {
    if (typeof value === "string" && allowed.includes(value)) return;
    const given = typeof value === "string" ? `"${value.slice(0, 64)}"` : kindOf(value);
    throw new ConfigError(`${field} is ${given}: use ${names}`);
  };
};

export const listOf =
  (entry: OptionCheck): OptionCheck =>
  (value, field) => {
    if (!Array.isArray(value)) throw wrongKind(value, field, "a list, in [ ]");
    for (const [index, each] of value.entries()) entry(each, `${field}[${index}]`);
  };

/** An object whose names the caller chooses. */
export const recordOf =
  (entry: OptionCheck): OptionCheck =>
  (value, field) => {
    anObject(value, field);
    for (const [name, each] of Object.entries(value as object)) entry(each, `${field}.${name}`);
  };

/** One form for texts, and another for everything else. */
export const textOr =
  (other: OptionCheck): OptionCheck =>
  (value, field) => {
    if (typeof value !== "string") other(value, field);
  };

/** Every field of `T`, so that a new option cannot be forgotten here. */
export type FieldChecks<T> = { readonly [Name in keyof T]-?: OptionCheck };

/** An object with these fields alone; fields that are undefined are not given, and `required` ones are. */
export const optionsOf =
  <T>(fields: FieldChecks<T>, required: readonly (keyof T & string)[] = []): OptionCheck =>
  (value, field) => {
    const path = field === "" ? "" : `${field}.`;
    if (!isObject(value)) throw wrongKind(value, field || "options", "an object, in { }");
    requireKnownFields(value, Object.keys(fields), path);
    for (const name of required) {
      if (value[name] === undefined) throw new ConfigError(`${path}${name} is not set`);
    }
    for (const [name, check] of Object.entries<OptionCheck>(fields)) {
      if (value[name] !== undefined) check(value[name], `${path}${name}`);
    }
  };

/**
 * Checks that an object of options has known fields alone.
 * @param path of the object, with a dot at its end; empty for a call's own options
 * @throws ConfigError that names the field, and the nearest known one
 */
export function requireKnownFields(given: unknown, known: readonly string[], path = ""): void {
  if (!isObject(given)) throw new ConfigError(`${path.replace(/\.$/, "") || "options"} must be an object`);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const near = nearest(unknown, known);
  const remedy = near === undefined ? `; known are ${known.join(", ")}` : `: did you mean ${near}?`;
  throw new ConfigError(`${path}${unknown} is no known option${remedy}`);
}

/**
 * Checks options that another library owns the rest of, where only a misspelled one of ours can be known to be wrong.
 * @throws ConfigError that names both
 */
export function refuseMisspelled(given: object, ours: readonly string[]): void {
  for (const name of Object.keys(given)) {
    const near = ours.includes(name) ? undefined : nearest(name, ours);
    if (near !== undefined) throw new ConfigError(`${name} is no known option: did you mean ${near}?`);
  }
}

/** How many letters may be wrong, missing or too many. */
const MAX_TYPOS = 2;

function nearest(name: string, known: readonly string[]): string | undefined {
  const [best] = known
    .map((field) => ({ field, typos: typosBetween(bare(name), bare(field)) }))
    .filter(({ typos }) => typos <= MAX_TYPOS)
    .sort((a, b) => a.typos - b.typos);
  return best?.field;
}

const bare = (name: string): string => name.slice(0, 64).toLowerCase().replace(/[_-]/g, "");

/** The Levenshtein distance, row by row. */
function typosBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
