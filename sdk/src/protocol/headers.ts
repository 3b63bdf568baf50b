/**
 * Names every header of this wire, with its limits and CORS lists, and those that shared caches follow; and decodes what
 * they carry: base64 of JSON from untrusted clients. Accepts only unambiguous input: canonical base64 (standard or URL
 * alphabet), strict UTF-8, one JSON object without duplicate keys, `__proto__` or deep nesting.
 */
import { aText, isObject, type JsonObject, wrongKind } from "./arguments";
import { NodeBuffer } from "./hex";

/** The names of headers, by what they bear. */
export const HEADER = {
  payment: "X-PAYMENT",
  paymentResponse: "X-PAYMENT-RESPONSE",
  subscription: "X-Service-Sub",
  idempotencyKey: "Idempotency-Key",
  /** of an answer that was kept from an earlier request */
  replayed: "Idempotency-Replayed",
  // x402 version 2
  paymentRequiredV2: "PAYMENT-REQUIRED",
  paymentSignatureV2: "PAYMENT-SIGNATURE",
  paymentResponseV2: "PAYMENT-RESPONSE",
  /** of a failed answer whose payment is refunded */
  paymentRefund: "PAYMENT-REFUND",
  signIn: "SIGN-IN-WITH-X",
  /** of a metered answer: signed receipts of its charges */
  usageReceipt: "USAGE-RECEIPT",
  // MPP, the HTTP authentication scheme "Payment"
  authenticate: "WWW-Authenticate",
  authorization: "Authorization",
  /** in place of it, where the application reads that itself */
  paymentAuthorization: "Payment-Authorization",
  paymentReceipt: "Payment-Receipt",
} as const;

/** The longest URL that can be paid for. */
export const MAX_RESOURCE_BYTES = 2_048;

/** A longer payment header is refused with 400. */
export const MAX_CREDENTIAL_BYTES = 8 * 1_024;

/** The most that the version 2 quote in a header may take; entries that do not fit are left out. */
export const MAX_PAYMENT_REQUIRED_HEADER_BYTES = 3 * 1_024;

/** The most that all headers of a 402 may take: nginx refuses 4 KiB by default. */
export const MAX_QUOTE_HEADERS_BYTES = 4_000;

/** Of these, what every answer of a gate, its framework and its server has. */
export const COMMON_HEADERS_BYTES = 960;

/** What a gated response varies by, for caches. */
export const VARY = [
  HEADER.payment,
  HEADER.paymentSignatureV2,
  HEADER.subscription,
  HEADER.signIn,
  HEADER.authorization,
  HEADER.paymentAuthorization,
].join(", ");

/** Stock clients send Access-Control-Expose-Headers as a request header, so it has to be allowed. */
export const CORS_ALLOW_HEADERS = [
  "Content-Type",
  HEADER.payment,
  HEADER.paymentSignatureV2,
  HEADER.subscription,
  HEADER.idempotencyKey,
  HEADER.signIn,
  HEADER.authorization,
  HEADER.paymentAuthorization,
  "Accept-Payment",
  "Access-Control-Expose-Headers",
  "traceparent",
  "tracestate",
].join(", ");

/** What a page of another origin may read of a gated response. */
export const CORS_EXPOSE_HEADERS = [
  HEADER.paymentResponse,
  HEADER.paymentRequiredV2,
  HEADER.paymentResponseV2,
  HEADER.paymentRefund,
  HEADER.usageReceipt,
  HEADER.replayed,
  HEADER.authenticate,
  HEADER.paymentReceipt,
  "Retry-After",
].join(", ");

/**
 * Returns whether a header speaks to shared caches alone, which follow it instead of `Cache-Control` (RFC 9213, and what
 * caches had before it).
 */
export function isForSharedCaches(name: string): boolean {
  // Most names end otherwise: a handler's headers are looked at for each answer.
  const last = name.charCodeAt(name.length - 1) | LOWER_CASE;
  return (last === L || last === S) && FOR_SHARED_CACHES.test(name);
}

const LOWER_CASE = 0x20;

const L = 0x6c;

const S = 0x73;

const FOR_SHARED_CACHES = /^(?:.+-cache-control|surrogate-control|edge-control|x-accel-expires)$/i;

const MAX_DEPTH = 8;

/** How deep a server's JSON may nest. Deeper than any credential: servers send the schemas of their extensions. */
export const MAX_ANSWER_DEPTH = 32;

const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** text whose bytes are its characters */
const PRINTABLE = /^[ -~]*$/;

const FORBIDDEN_KEYS = new Set(["__proto__", "constructor", "prototype"]);

/** Returns a member of an object; undefined where it is no object or has no such member of its own. */
export function memberOf(value: unknown, key: string): unknown {
  return isObject(value) && typeof key === "string" && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** @returns undefined for anything but a well-formed header of at most `maxBytes`; never throws */
export function decodeJsonHeader(
  value: string,
  maxBytes = MAX_CREDENTIAL_BYTES,
  maxDepth = MAX_DEPTH,
): JsonObject | undefined {
  aText(value, "value");
  if (value.length > maxBytes || !BASE64.test(value)) return undefined;
  const standard = value.replaceAll("-", "+").replaceAll("_", "/");
  const unpadded = standard.replace(/=+$/, "");
  const padded = unpadded + "=".repeat((4 - (unpadded.length % 4)) % 4);
  if (unpadded.length % 4 === 1 || (standard !== unpadded && standard !== padded)) return undefined;
  try {
    const binary = atob(padded);
    if (btoa(binary) !== padded) return undefined;
    if (PRINTABLE.test(binary)) return parseStrictJson(binary, maxDepth);
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    return parseStrictJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes), maxDepth);
  } catch {
    // Not UTF-8, or not JSON: the caller gives the same refusal for both, never a parser's message.
    return undefined;
  }
}

/** JSON in UTF-8 in standard base64, as payment headers carry it. */
export function encodeJsonHeader(value: unknown): string {
  try {
    return encodeHeaderText(JSON.stringify(value));
  } catch {
    throw wrongKind(value, "value", "JSON: a bigint is written as a decimal string");
  }
}

/** Encodes text that is JSON already. */
export function encodeHeaderText(text: string): string {
  aText(text, "text");
  if (NodeBuffer) return NodeBuffer.from(text, "utf8").toString("base64");
  if (PRINTABLE.test(text)) return btoa(text);
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/** @returns undefined when `text` is not one JSON object, or has duplicate or forbidden keys, NUL or deep nesting */
export function parseStrictJson(text: string, maxDepth = MAX_DEPTH): JsonObject | undefined {
  const parsed = parseStrictBody(text, maxDepth);
  return Array.isArray(parsed) ? undefined : parsed;
}

/** Parses text that may also be a list. */
export function parseStrictBody(text: string, maxDepth = MAX_DEPTH): JsonObject | unknown[] | undefined {
  aText(text, "text");
  if (!isUnambiguous(text, maxDepth)) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null ? (parsed as JsonObject | unknown[]) : undefined;
  } catch {
    // Not JSON: the caller gives one refusal, never a parser's message.
    return undefined;
  }
}

const OPEN_OBJECT = 0x7b;

const CLOSE_OBJECT = 0x7d;

const OPEN_LIST = 0x5b;

const CLOSE_LIST = 0x5d;

const COMMA = 0x2c;

const COLON = 0x3a;

const QUOTE = 0x22;

const BACKSLASH = 0x5c;

/** As it is, or escaped: some stores end a text there. */
const NUL = /\0|\\u0000/i;

/** One pass over the text: `JSON.parse` keeps the last of two equal keys silently, other parsers the first. */
function isUnambiguous(text: string, maxDepth: number): boolean {
  if (NUL.test(text)) return false;
  const keysAtDepth: (Set<string> | null)[] = [];
  let expectsKey = false;
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case OPEN_OBJECT:
        keysAtDepth.push(new Set());
        if (keysAtDepth.length > maxDepth) return false;
        expectsKey = true;
        break;
      case OPEN_LIST:
        keysAtDepth.push(null);
        if (keysAtDepth.length > maxDepth) return false;
        expectsKey = false;
        break;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        keysAtDepth.pop();
        expectsKey = false;
        break;
      case COMMA:
        expectsKey = keysAtDepth.at(-1) instanceof Set;
        break;
      case COLON:
        expectsKey = false;
        break;
      case QUOTE: {
        const end = endOfString(text, i);
        if (end < 0) return false;
        const keys = keysAtDepth.at(-1);
        if (expectsKey && keys) {
          const key = keyIn(text, i, end);
          if (key === undefined || keys.has(key) || FORBIDDEN_KEYS.has(key)) return false;
          keys.add(key);
        }
        i = end;
        break;
      }
    }
  }
  return true;
}

/** @returns where the string that begins at `start` has its closing quote, -1 if it has none */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return -1;
}

function keyIn(text: string, start: number, end: number): string | undefined {
  const key = text.slice(start + 1, end);
  return key.includes("\\") ? unescapeKey(text.slice(start, end + 1)) : key;
}

function unescapeKey(literal: string): string | undefined {
  try {
    return JSON.parse(literal) as string;
  } catch {
    return undefined;
  }
}
