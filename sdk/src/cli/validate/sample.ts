/** Makes arguments that a tool's input schema accepts, so that a tool can be asked for its price. */
import { isObject, type JsonObject } from "../../protocol/arguments";
import { memberOf } from "../../protocol/headers";

/** How deep a schema is followed, how long texts and lists get, and how many values a sample has. */
const MAX_DEPTH = 8;
const MAX_LENGTH = 1_000;
const MAX_VALUES = 10_000;

interface Capacity {
  values: number;
}

const FORMATS: Readonly<Record<string, string>> = {
  email: "someone@example.com",
  uri: "https://example.com/",
  url: "https://example.com/",
  uuid: "00000000-0000-4000-8000-000000000000",
  date: "2030-01-01",
  "date-time": "2030-01-01T00:00:00Z",
};

/**
 * Returns the smallest value that a JSON schema describes: required members alone, first choices, lower bounds. What a
 * pattern or a reference requires is not met.
 */
export const sampleOf = (schema: unknown): unknown => sampleIn({ values: MAX_VALUES }, schema, MAX_DEPTH);

function sampleIn(capacity: Capacity, schema: unknown, depth: number): unknown {
  capacity.values--;
  if (!isObject(schema) || depth === 0 || capacity.values < 0) return {};
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  for (const list of [schema.examples, schema.enum]) if (Array.isArray(list) && list.length > 0) return list[0];
  for (const list of [schema.anyOf, schema.oneOf])
    if (Array.isArray(list)) return sampleIn(capacity, list[0], depth - 1);
  const type: unknown = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case "string":
      return FORMATS[String(schema.format)] ?? "x".repeat(atMost(schema.minLength ?? 1));
    case "integer":
    case "number":
      return numberOf(schema.minimum, schema.exclusiveMinimum);
    case "boolean":
      return false;
    case "null":
      return null;
    case "array":
      return listIn(capacity, schema, depth - 1);
    default:
      return objectIn(capacity, schema, depth - 1);
  }
}

const atMost = (length: unknown): number => Math.min(MAX_LENGTH, Math.max(0, Number(length ?? 0) || 0));

function numberOf(minimum: unknown, exclusive: unknown): number {
  if (typeof minimum === "number") return minimum;
  return typeof exclusive === "number" ? Math.floor(exclusive) + 1 : 1;
}

function listIn(capacity: Capacity, { minItems, items }: JsonObject, depth: number): unknown[] {
  const list: unknown[] = [];
  for (let left = atMost(minItems); left > 0 && capacity.values > 0; left--)
    list.push(sampleIn(capacity, items, depth));
  return list;
}

function objectIn(capacity: Capacity, { required, properties }: JsonObject, depth: number): Record<string, unknown> {
  const names = (Array.isArray(required) ? required : []).filter((name) => typeof name === "string");
  return Object.fromEntries(
    names.slice(0, MAX_LENGTH).map((name) => [name, sampleIn(capacity, memberOf(properties, name), depth)]),
  );
}
