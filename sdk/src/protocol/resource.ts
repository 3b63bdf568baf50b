/**
 * Names what a payment buys: the `resource`, one string that gate, agent and Facilitator compare byte by byte, and the
 * memo, the gate's reference that ties a payment to a request, `<ref>.<keyId>.<expiry>.<mac>`. The MAC covers everything
 * that was quoted, so the gate honours quoted terms without storing the quote.
 */

import type { Address } from "./address";
import { aBigint, aList, aNumber, aText, fieldsOf, wrongKind } from "./arguments";
import { MAX_RESOURCE_BYTES } from "./headers";
import { equalConstantTime, fromBase64Url, hmacSha256, randomBytes, toBase64Url, utf8ToBytes } from "./hex";
import type { PaymentMethod } from "./transfer-methods";

/** The longest URL that PAYMENT-REQUIRED names whole: it is not all that the header has to hold. */
const MAX_WHOLE_CHARS = 1_024;

/**
 * Returns a resource as PAYMENT-REQUIRED names it: a long one without its query, or as its origin where the path is long
 * too. The memo covers all of it.
 */
export function shortResourceOf(resource: string): string {
  aText(resource, "resource");
  if (resource.length <= MAX_WHOLE_CHARS) return resource;
  const { origin, pathname } = new URL(resource);
  const path = `${origin}${pathname}`;
  return path.length <= MAX_WHOLE_CHARS ? path : `${origin}/`;
}

/** Serialised, these are what they were: nothing to escape, nothing to resolve (a dot segment begins with "/."). */
const PLAIN = /^[A-Za-z0-9/_~.-]*(?:\?[A-Za-z0-9/_~.=&-]*)?$/;

let lastBase: { readonly publicUrl: string; readonly base: URL; readonly prefix: string } | undefined;

function baseOf(publicUrl: string): { readonly base: URL; readonly prefix: string } {
  if (lastBase?.publicUrl !== publicUrl) {
    const base = new URL(publicUrl);
    lastBase = { publicUrl, base, prefix: base.pathname.replace(/\/+$/, "") };
  }
  return lastBase;
}

/**
 * `publicUrl` joined with the request target as it came (path and query, before any mounting took a prefix off).
 * WHATWG-serialised, query order kept, fragment dropped.
 * @returns undefined when the target is not origin-form, leaves the public origin or passes 2,048 bytes
 */
export function resourceOf(publicUrl: string, target: string): string | undefined {
  aText(publicUrl, "publicUrl");
  aText(target, "target");
  if (!target.startsWith("/") || target.includes("\\")) return undefined;
  const { base, prefix } = baseOf(publicUrl);
  if (PLAIN.test(target) && !target.includes("/.")) {
    const href = `${base.origin}${prefix}${target}`;
    return href.length <= MAX_RESOURCE_BYTES ? href : undefined;
  }
  let url: URL;
  try {
    // Concatenated, not resolved: resolving "//evil.example/x" against a base would change the origin.
    url = new URL(`${base.origin}${prefix}${target}`);
  } catch {
    return undefined;
  }
  if (url.origin !== base.origin) return undefined;
  url.hash = "";
  return utf8ToBytes(url.href).length <= MAX_RESOURCE_BYTES ? url.href : undefined;
}

/**
 * The same serialisation on the client's side, of the URL it is about to request. An empty query is dropped: Node's fetch
 * does not send its question mark, so the gate does not see one.
 */
export function resourceOfUrl(url: string | URL): string | undefined {
  try {
    const parsed = new URL(url);
    parsed.hash = "";
    parsed.username = "";
    parsed.password = "";
    if (parsed.search === "") parsed.search = "";
    return utf8ToBytes(parsed.href).length <= MAX_RESOURCE_BYTES ? parsed.href : undefined;
  } catch {
    return undefined;
  }
}

/** What the Facilitator may keep and show of a resource: origin and path, never the query. */
export function resourceWithoutQuery(resource: string): string {
  aText(resource, "resource");
  if (!URL.canParse(resource)) throw wrongKind(resource, "resource", "an absolute URL");
  const { protocol, host, pathname } = new URL(resource);
  // Not `origin`: of any scheme but the web's that is "null".
  return `${protocol}//${host}${pathname}`;
}

const REF_BYTES = 16;

const MAC_BYTES = 16;

const POOL_BYTES = 256 * REF_BYTES;

let pool: Uint8Array = new Uint8Array();

let poolAt = POOL_BYTES;

const SHAPE = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{1,16})\.([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{22})$/;

/** How long quoted terms hold, seconds. */
export const DEFAULT_MEMO_LIFE_SEC = 600;

/** An Idempotency-Key of any other length gets a random ref. */
export const IDEMPOTENCY_KEY_LENGTH = { min: 16, max: 128 } as const;

/** A secret that memos are made with, and its public name. */
export interface MemoKey {
  /** 1-16 characters of A-Z a-z 0-9 _ - */
  readonly id: string;
  /** at least 32 bytes */
  readonly secret: Uint8Array;
}

/** What was quoted. `bodyHash` (hex SHA-256) only where the gate binds bodies. */
export interface QuotedFacts {
  readonly method: string;
  readonly resource: string;
  readonly amount: bigint;
  readonly token: Address;
  readonly payTo: Address;
  readonly network: string;
  readonly bodyHash?: string;
  /** of entries that another contract than the token moves; absent: the token's EIP-3009 */
  readonly transfer?: Exclude<PaymentMethod, "eip3009">;
}

/** The parts of a memo, not yet verified. */
export interface ParsedMemo {
  readonly ref: string;
  readonly keyId: string;
  /** unix seconds */
  readonly expiresAtSec: number;
  readonly mac: Uint8Array;
}

/** A fresh reference, 16 random bytes as base64url. */
export function randomRef(): string {
  return toBase64Url(randomSalt());
}

/** 16 random bytes for what is public once it is used; keys are made of `randomBytes`. */
export function randomSalt(): Uint8Array {
  // Asking the system costs more than all the rest of a quote: many at once, each byte used once.
  if (poolAt >= POOL_BYTES) {
    pool = randomBytes(POOL_BYTES);
    poolAt = 0;
  }
  poolAt += REF_BYTES;
  return pool.slice(poolAt - REF_BYTES, poolAt);
}

/** The same purchase, named by the same Idempotency-Key, has the same ref: independent of price and expiry. */
export function refOfIdempotencyKey(key: MemoKey, method: string, resource: string, idempotencyKey: string): string {
  fieldsOf(key, "key");
  aText(method, "method");
  aText(resource, "resource");
  aText(idempotencyKey, "idempotencyKey");
  const message = utf8ToBytes(JSON.stringify(["ref", method, resource, idempotencyKey]));
  return toBase64Url(hmacSha256(key.secret, message).slice(0, REF_BYTES));
}

/** Issues a memo for quoted facts, valid until `expiresAtSec`; it need not be stored. */
export function issueMemo(key: MemoKey, facts: QuotedFacts, ref: string, expiresAtSec: number): string {
  fieldsOf(key, "key");
  fieldsOf(facts, "facts");
  aText(ref, "ref");
  aNumber(expiresAtSec, "expiresAtSec");
  return memoIssuer(key, facts)(ref, expiresAtSec);
}

/** Issues many memos of the same facts: the part that does not change is encoded once. */
export function memoIssuer(key: MemoKey, facts: QuotedFacts): (ref: string, expiresAtSec: number) => string {
  fieldsOf(key, "key");
  fieldsOf(facts, "facts");
  const [before, after] = messageParts(key, facts);
  return (ref, expiresAtSec) => {
    const mac = hmacSha256(key.secret, utf8ToBytes(`${before}${ref}${after(expiresAtSec)}`)).subarray(0, MAC_BYTES);
    return `${ref}.${key.id}.${expiresAtSec}.${toBase64Url(mac)}`;
  };
}

/** @returns undefined when `memo` is not of the memo's one shape */
export function parseMemo(memo: unknown): ParsedMemo | undefined {
  const match = typeof memo === "string" ? SHAPE.exec(memo) : null;
  if (!match) return undefined;
  const [, ref, keyId, expiry, macText] = match as unknown as [string, string, string, string, string];
  const mac = fromBase64Url(macText);
  return mac && fromBase64Url(ref) ? { ref, keyId, expiresAtSec: Number(expiry), mac } : undefined;
}

/** Returns whether one of `keys` issued this memo for exactly these facts. Says nothing about its expiry. */
export function isMemoGenuine(memo: ParsedMemo, facts: QuotedFacts, keys: readonly MemoKey[]): boolean {
  fieldsOf(memo, "memo");
  fieldsOf(facts, "facts");
  aList(keys, "keys");
  const key = keys.find((candidate) => candidate?.id === memo.keyId);
  return key !== undefined && equalConstantTime(memo.mac, macOf(key, facts, memo.ref, memo.expiresAtSec));
}

function macOf(key: MemoKey, facts: QuotedFacts, ref: string, expiresAtSec: number): Uint8Array {
  const [before, after] = messageParts(key, facts);
  return hmacSha256(key.secret, utf8ToBytes(`${before}${ref}${after(expiresAtSec)}`)).slice(0, MAC_BYTES);
}

/** The MAC's message, one JSON list, around the ref (base64url: nothing in it is escaped) and the expiry. */
function messageParts(key: MemoKey, facts: QuotedFacts): readonly [before: string, after: (expiry: number) => string] {
  const { method, resource, amount, token, payTo, network, bodyHash, transfer } = facts;
  fieldsOf(key, "key");
  for (const [name, value] of Object.entries({ method, resource, token, payTo, network }))
    aText(value, `facts.${name}`);
  aBigint(amount, "facts.amount");
  const listed = [method, resource, amount.toString(), token.toLowerCase(), payTo.toLowerCase(), network];
  // Only where it is there: memos of other entries stay as they are.
  if (transfer) listed.push(transfer);
  const bound = JSON.stringify(bodyHash ?? null);
  return [`${JSON.stringify(["memo", ...listed]).slice(0, -1)},"`, (expiry) => `","${key.id}",${expiry},${bound}]`];
}
