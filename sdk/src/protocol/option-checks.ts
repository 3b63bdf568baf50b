/**
 * Checks options by name and kind before anything reads them: what is misspelled or of another kind is refused by its
 * path, at every depth. No message repeats a value, which may be a secret.
 */
import { aNumber, aText, callback, kind, kindOf, type OptionCheck, wholeNumber, wrongKind } from "./arguments";
import { ConfigError } from "./errors";
import { requireKnownFields } from "./known-fields";
import { isObject } from "./strict-json";

export type { OptionCheck } from "./arguments";
export { aNumber, aText, callback, kindOf, wholeNumber, wrongKind };

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
