/** Writes the headers of a Node response: those of a paid one, and those that the application has not set itself. */
import { type ServerResponse, validateHeaderName, validateHeaderValue } from "node:http";
import { isForSharedCaches } from "../../protocol/headers";
import { CORS_HEADERS, privateCacheControl, varyWith } from "../core/answer";
import { pairsOf } from "../replay/recorder";
import { isHttp2, nodeError } from "./shown-answer";

/** A method of a response, bound to it. */
export type Write = (...args: unknown[]) => ServerResponse;

/** The response's own `writeHead`. */
export const writeHeadOf = (response: ServerResponse): Write => response.writeHead.bind(response) as Write;

/** Writes the head of a paid response: kept out of shared caches whatever headers the handler sets. */
export function writePrivateHead(
  response: ServerResponse,
  cors: boolean,
  writeHead: Write,
  args: unknown[],
): ServerResponse {
  const { status, reason: given, headers } = headArgsOf(args);
  const reason = given === undefined ? [] : [given];
  if (!Array.isArray(headers) && response.getHeaderNames().length === 0) {
    // Nothing is set yet: one plain object is written out several times as fast as headers that are set one by one.
    return writeHead(status, ...reason, privateHeaders((headers ?? {}) as Record<string, HeaderValue>, cors));
  }
  applyHeaders(response, headers);
  dropForSharedCaches(response);
  if (cors) setAbsent(response, CORS_HEADERS);
  response.setHeader("Cache-Control", privateCacheControl(headerOf(response, "Cache-Control")));
  response.setHeader("Vary", varyWith(headerOf(response, "Vary")));
  return writeHead(status, ...reason);
}

type HeaderValue = string | number | readonly string[] | undefined;

/** The handler's headers and those of a paid response, each once. */
function privateHeaders(given: Readonly<Record<string, HeaderValue>>, cors: boolean): Record<string, HeaderValue> {
  // Not a spread: V8 fills old space when properties are added to one.
  const headers: Record<string, HeaderValue> = cors ? Object.assign({}, CORS_HEADERS) : {};
  let cacheControl: string | undefined;
  let vary: string | undefined;
  for (const name in given) {
    const value = given[name];
    if (value === undefined || !Object.hasOwn(given, name)) continue;
    const lower = LENGTHS.has(name.length) ? name.toLowerCase() : "";
    if (lower === "cache-control") cacheControl = String(value);
    else if (lower === "vary") vary = String(value);
    else if (!isForSharedCaches(name)) {
      const own = cors ? CORS_NAMES.get(lower) : undefined;
      if (own) delete headers[own];
      headers[name] = value;
    }
  }
  headers["Cache-Control"] = privateCacheControl(cacheControl);
  headers.Vary = varyWith(vary);
  return headers;
}

const CORS_NAMES = new Map(Object.keys(CORS_HEADERS).map((name) => [name.toLowerCase(), name]));

/** of the names that are looked for: most of a handler's need no second look */
const LENGTHS = new Set(["cache-control", "vary", ...CORS_NAMES.keys()].map((name) => name.length));

/** Sets the headers given to writeHead, which take precedence over earlier ones. */
function applyHeaders(response: ServerResponse, headers: unknown): void {
  if (Array.isArray(headers)) {
    const pairs = Array.isArray(headers[0])
      ? (headers as [string, string][])
      : headers.flatMap((name: string, index) =>
          index % 2 === 0 ? [[name, headers[index + 1]] as [string, string]] : [],
        );
    const own = new Map<string, string[]>();
    for (const [name, value] of pairs) own.set(name, [...(own.get(name) ?? []), value]);
    for (const [name, values] of own) response.setHeader(name, values.length === 1 ? (values[0] ?? "") : values);
    return;
  }
  for (const [name, value] of Object.entries((headers ?? {}) as Record<string, string | number | string[]>)) {
    if (value !== undefined) response.setHeader(name, value);
  }
}

/** What the application has set, perhaps for all its answers. */
export function dropForSharedCaches(response: ServerResponse): void {
  for (const name of response.getHeaderNames()) if (isForSharedCaches(name)) response.removeHeader(name);
}

function headerOf(response: ServerResponse, name: string): string | undefined {
  const value = response.getHeader(name);
  return value === undefined ? undefined : Array.isArray(value) ? value.join(", ") : String(value);
}

/** What a handler gives to `writeHead`, by its parts. */
export function headArgsOf([status, ...rest]: readonly unknown[]): {
  readonly status: unknown;
  readonly reason: string | undefined;
  readonly headers: unknown;
} {
  const reason = typeof rest[0] === "string" ? rest[0] : undefined;
  return { status, reason, headers: reason === undefined ? (rest[1] ?? rest[0]) : rest[1] };
}

/** Throws what node:http would throw for this status line, while the handler can still answer otherwise. */
export function requireStatusLine(response: ServerResponse, status: unknown, given?: string): number {
  const code = Math.trunc(Number(status));
  if (!(code >= 100 && code <= 999)) {
    throw Object.assign(new RangeError(`Invalid status code: ${String(status)}`), {
      code: "ERR_HTTP_INVALID_STATUS_CODE",
    });
  }
  const reason = given ?? (isHttp2(response) ? undefined : response.statusMessage);
  if (reason !== undefined) validateHeaderValue("statusMessage", reason);
  return code;
}

/**
 * Sets what a handler gives to `writeHead`, without writing it.
 * @throws what node:http would throw when it writes this head
 */
export function applyHead(
  response: ServerResponse,
  args: readonly unknown[],
): { readonly status: number; readonly reason: string | undefined } {
  const { status: given, reason, headers } = headArgsOf(args);
  const status = requireStatusLine(response, given, reason);
  for (const [name, value] of pairsOf(headers)) {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  }
  applyHeaders(response, headers);
  if (!isHttp2(response) && response.hasHeader("trailer") && !isChunked(response, status)) {
    throw nodeError("ERR_HTTP_TRAILER_INVALID", "Trailers are invalid with this transfer encoding");
  }
  response.statusCode = status;
  if (reason !== undefined && !isHttp2(response)) response.statusMessage = reason;
  return { status, reason };
}

function isChunked(response: ServerResponse, status: number): boolean {
  if (status === 204 || status === 304) return false;
  const named = headerOf(response, "transfer-encoding");
  if (named !== undefined) return /chunked/i.test(named);
  const isLeftToNode = response.useChunkedEncodingByDefault && !response.hasHeader("content-length");
  return isLeftToNode && response.req.method !== "HEAD";
}

/** The application's own CORS headers stay as they are. */
export function setAbsent(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!name.startsWith("Access-Control-") || !response.hasHeader(name)) response.setHeader(name, value);
  }
}
