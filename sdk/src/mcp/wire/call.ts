/** Identifies one tool call: its resource, and the hash of the server's id, the tool's name and its arguments. */
import { ConfigError, type Hex, InvalidRequest, sha256, toBase64Url, toHex, utf8ToBytes } from "../../protocol";

/** Letters, digits and `_ - . /`, as the protocol recommends. */
const TOOL_NAME = /^[A-Za-z0-9_./-]{1,128}$/;

/** The deepest nesting of arguments; a deeper one is refused before it costs a stack. */
const MAX_DEPTH = 64;

/**
 * Returns the resource that a tool's payments name, `mcp://tool/<name>`.
 * @throws ConfigError for a name with two readings as a URL
 */
export function toolResource(name: string): string {
  if (typeof name === "string" && TOOL_NAME.test(name) && !/^\.{1,2}$/.test(name))
    return `mcp://tool/${encodeURIComponent(name)}`;
  throw new ConfigError(
    `the tool's name is ${typeof name === "string" ? JSON.stringify(name) : kindOf(name)}: use 1 to 128 letters, digits and _ - . /`,
  );
}

/** One call of one tool of one server. */
export interface ToolCall {
  readonly server: string;
  readonly tool: string;
  /** the arguments as the client sends them, a JSON object */
  readonly args: unknown;
}

/**
 * Returns the text that names a call: canonical JSON of the server's id, the tool's name and the arguments.
 * @throws InvalidRequest for arguments that are no JSON, or nested deeper than 64 levels
 */
export function callText({ server, tool, args }: ToolCall): string {
  return `["turnpike-mcp-call",${JSON.stringify(server)},${JSON.stringify(tool)},${canonicalJson(args ?? {})}]`;
}

/** Returns the SHA-256 of `callText`. @throws InvalidRequest */
export const callHash = (call: ToolCall): Hex => toHex(sha256(utf8ToBytes(callText(call))));

/**
 * Serialises JSON in the one form of RFC 8785: members in the order of their names' UTF-16 units, no white space. Absent
 * members (`undefined`) are left out, as `JSON.stringify` does.
 * @throws InvalidRequest for a value that JSON has no form for, such as a Date or a Map: two of them would be one text
 */
export function canonicalJson(value: unknown): string {
  return canonical(value, "arguments", MAX_DEPTH);
}

/** Returns a value as MPP encodes it: base64url of its canonical form. @throws InvalidRequest as `canonicalJson` */
export const encodedJson = (value: unknown): string => toBase64Url(utf8ToBytes(canonicalJson(value)));

function canonical(value: unknown, path: string, depth: number): string {
  switch (typeof value) {
    case "string":
    case "boolean":
      return JSON.stringify(value);
    case "number":
      if (Number.isFinite(value)) return JSON.stringify(value);
      break;
    case "object":
      if (value === null) return "null";
      if (depth === 0) throw new InvalidRequest(`${path}: must be nested at most ${MAX_DEPTH} levels deep`);
      if (Array.isArray(value)) return listOf(value, path, depth - 1);
      if (isPlain(value)) return objectText(value, path, depth - 1);
  }
  throw new InvalidRequest(`${path}: must be JSON, and is ${kindOf(value)}`);
}

function listOf(list: readonly unknown[], path: string, depth: number): string {
  // By index: `map` would skip holes.
  const items = Array.from(list, (item, i) => canonical(item, `${path}[${i}]`, depth));
  return `[${items.join(",")}]`;
}

function objectText(object: object, path: string, depth: number): string {
  const members = Object.entries(object)
    .filter(([, value]) => value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${JSON.stringify(name)}:${canonical(value, `${path}.${name}`, depth)}`);
  return `{${members.join(",")}}`;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

const kindOf = (value: unknown): string =>
  typeof value === "object" ? `a ${value?.constructor?.name ?? "object"}` : String(typeof value);
