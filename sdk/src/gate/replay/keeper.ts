/**
 * Keeps the answer to one purchase for a client that lost it: the limits, the part of an answer that is kept (status,
 * headers that are safe to repeat, body), and its sealed form in the claim store.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { ConfigError, type Hex, type MemoKey, sha256, utf8ToBytes } from "../../protocol";
import { isForSharedCaches } from "../../protocol/headers";
import { DAY_SEC } from "../../protocol/periods";
import type { ClaimStore, StoredAnswer } from "../purchases/record";
import { type Asking, askedBy, type KeptAnswer } from "./fit";

/** What a provider keeps of the answers to paid requests. */
export interface ReplayOptions {
  /** the largest body that is kept, bytes; default 65,536, at most 1,048,576 */
  readonly maxBytes?: number;
  /** seconds for which an answer is kept; default 600, at most 86,400 */
  readonly keepSec?: number;
}

export type ReplayLimits = Required<ReplayOptions>;

const DEFAULTS: ReplayLimits = { maxBytes: 64 * 1_024, keepSec: 600 };

/** Claims outlive their answers: a day is what every claim is kept beyond its payment's window. */
const MOST: ReplayLimits = { maxBytes: 1_024 * 1_024, keepSec: DAY_SEC };

/** @returns undefined where no answer is kept. @throws ConfigError naming the setting */
export function replayLimitsOf(replay: ReplayOptions | false | undefined): ReplayLimits | undefined {
  if (replay === false) return undefined;
  const limits = { ...DEFAULTS, ...replay };
  for (const name of ["maxBytes", "keepSec"] as const) {
    const value = limits[name];
    if (!Number.isSafeInteger(value) || value < 1 || value > MOST[name]) {
      throw new ConfigError(`replay.${name} is ${value}: use a whole number from 1 to ${MOST[name]}, or replay: false`);
    }
  }
  return limits;
}

const MAX_HEADER_BYTES = 16 * 1_024;

/**
 * Headers that are not repeated: a session belongs to one client, a connection to one response, and senders set the
 * rest themselves.
 */
const UNSAFE: ReadonlySet<string> = new Set([
  "set-cookie",
  "set-cookie2",
  "clear-site-data",
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "date",
  "age",
  "alt-svc",
  "server-timing",
]);

/** @returns undefined for headers that are too many to keep */
export function safeHeaders(given: Iterable<readonly [string, string]>): Record<string, string> | undefined {
  const headers: Record<string, string> = {};
  let bytes = 0;
  for (const [name, value] of given) {
    const lower = name.toLowerCase();
    if (UNSAFE.has(lower) || isForSharedCaches(lower)) continue;
    headers[lower] = headers[lower] === undefined ? value : `${headers[lower]}, ${value}`;
    bytes += lower.length + value.length;
  }
  return bytes <= MAX_HEADER_BYTES ? headers : undefined;
}

/** Returns whether a body of this type is sent part by part, without an end in sight. */
export function isStream(contentType: string | undefined): boolean {
  return /^\s*text\/event-stream\b/i.test(contentType ?? "");
}

/** An event stream never ends in time; a switched protocol has no body of its own. */
export function mayBeKept(status: number, contentType: string | undefined): boolean {
  return status >= 200 && status < 500 && !isStream(contentType);
}

/** A HEAD's answer has a length, and nothing of that length; every other length is its body's. */
/** Servers drop a body that a handler passes with these; HTTP/2 fails if one is sent. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

function encodeKept({ status, headers: all, body: given, asked }: KeptAnswer, isHead: boolean): Uint8Array {
  const { "content-length": length, ...rest } = all;
  const headers = isHead && length !== undefined ? { ...rest, "content-length": length } : rest;
  const body = isHead || WITHOUT_BODY.has(status) ? new Uint8Array() : given;
  const head = Buffer.from(JSON.stringify({ status, headers, asked }));
  const headBytes = Buffer.alloc(4);
  headBytes.writeUInt32BE(head.length);
  return Buffer.concat([headBytes, head, body]);
}

function decodeKept(bytes: Uint8Array): KeptAnswer {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const bodyAt = 4 + buffer.readUInt32BE();
  const { status, headers, asked } = JSON.parse(buffer.toString("utf8", 4, bodyAt)) as Omit<KeptAnswer, "body">;
  return { status, headers, body: buffer.subarray(bodyAt), asked };
}

export interface AnswerKeeper {
  readonly paymentId: Purchased["paymentId"];
  /** the largest body that is worth recording */
  readonly maxBytes: number;
  seal(answer: KeptAnswer): StoredAnswer;
}

export interface KeeperOptions {
  readonly purchased: Purchased;
  readonly request: Asking;
  readonly limits: ReplayLimits;
  readonly gateKey: MemoKey;
  /** the machine's clock */
  readonly nowMs: () => number;
}

export function keeperOf({ purchased, request, limits, gateKey, nowMs }: KeeperOptions): AnswerKeeper {
  return {
    paymentId: purchased.paymentId,
    maxBytes: limits.maxBytes,
    // What is sealed again was asked for by the first request.
    seal: ({ asked = askedBy(request), ...answer }) => ({
      text: seal(encodeKept({ ...answer, asked }, request.method === "HEAD"), purchased, gateKey),
      nowMs: nowMs(),
      keepSec: limits.keepSec,
    }),
  };
}

export function withReceipts(answer: KeptAnswer, receipts: Readonly<Record<string, string>>): KeptAnswer {
  const named = Object.entries(receipts).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...answer, headers: { ...answer.headers, ...Object.fromEntries(named) } };
}

/** @returns undefined for what is too large to keep once its payment has settled */
export const sealedWithin = (
  keeper: AnswerKeeper | undefined,
  answer: KeptAnswer | undefined,
): StoredAnswer | undefined =>
  answer && keeper && answer.body.byteLength <= keeper.maxBytes ? keeper.seal(answer) : undefined;

export type ServedAnswer =
  | { readonly kind: "answer"; readonly answer: KeptAnswer }
  /** it has bought its request, and no answer can be given again */
  | { readonly kind: "no_answer" }
  /** it has bought nothing, and is refunded */
  | { readonly kind: "refund" };

export interface ServedQuestion {
  readonly store: ClaimStore;
  readonly paymentId: Purchased["paymentId"];
  /** undefined: the request names no secret, or the route keeps no answers */
  readonly purchased: Purchased | undefined;
  readonly gateKeys: readonly MemoKey[];
  readonly nowMs: number;
}

/** @returns undefined when the payment has bought nothing yet. @throws Unavailable when the store cannot answer */
export async function findServed({
  store,
  paymentId,
  purchased,
  gateKeys,
  nowMs,
}: ServedQuestion): Promise<ServedAnswer | undefined> {
  const used = await store.served(paymentId, nowMs);
  if (!used) return undefined;
  if (used.isForRefund) return { kind: "refund" };
  const answer = purchased && openAnswer(used.answer, purchased, gateKeys);
  return answer ? { kind: "answer", answer } : { kind: "no_answer" };
}

/** @returns undefined for none, and for one that was sealed for another request */
export function openAnswer(
  sealed: string | undefined,
  purchased: Purchased,
  gateKeys: readonly MemoKey[],
): KeptAnswer | undefined {
  const plain = sealed === undefined ? undefined : unseal(sealed, purchased, gateKeys);
  return plain && decodeKept(plain);
}

/**
 * Names the secret that a client must repeat to read its answer again. A payment alone proves nothing, since calldata
 * shows every authorization; the secret is a part of the first request that no chain shows. Of a standard payload:
 * "identifier", its payment-identifier; "key", else the request's Idempotency-Key; "payload", else its signature.
 */
export type ReplaySecret = readonly [kind: "proof" | "identifier" | "key" | "payload", value: string];

/**
 * Names a native proof by its memo's reference, 16 bytes that are random or the gate's HMAC of the Idempotency-Key; the
 * chain shows only a hash. Every proof of the payment has it, also one for a later quote with the same key. The gate
 * has checked the signed proof before.
 */
export const secretOfProof = (ref: string): ReplaySecret => ["proof", ref];

/**
 * Names a standard payload by its own signature, where the request has no secret. It opens an answer only until the
 * payment is used: calldata shows it afterwards.
 */
export const secretOfSignature = (signature: string): ReplaySecret => ["payload", signature.toLowerCase()];

export interface Purchased {
  readonly secret: ReplaySecret;
  readonly paymentId: Hex;
  readonly method: string;
  readonly resource: string;
  /** hex SHA-256, where the route binds bodies */
  readonly bodyHash: string | undefined;
}

const CIPHER = "aes-256-gcm";

const KEY_BYTES = 32;

const IV_BYTES = 12;

const TAG_BYTES = 16;

const SEALED = /^1\.([A-Za-z0-9_-]{1,16})\.([A-Za-z0-9+/]+={0,2})$/;

/**
 * Encrypts an answer under a key derived from its secret and from what was bought. The store alone reveals nothing, and
 * another method, resource or body decrypts nothing. AES-256-GCM, HKDF with SHA-256.
 */
export function seal(plain: Uint8Array, purchased: Purchased, gateKey: MemoKey): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, keyFor(purchased, gateKey), iv);
  const sealed = Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
  return `1.${gateKey.id}.${sealed.toString("base64")}`;
}

/** @returns undefined for another secret, another purchase, or an altered text */
export function unseal(text: string, purchased: Purchased, gateKeys: readonly MemoKey[]): Uint8Array | undefined {
  const [, keyId, base64] = SEALED.exec(text) ?? [];
  const gateKey = gateKeys.find(({ id }) => id === keyId);
  const sealed = Buffer.from(base64 ?? "", "base64");
  if (!gateKey || sealed.length < IV_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv(CIPHER, keyFor(purchased, gateKey), sealed.subarray(0, IV_BYTES));
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    // The tag does not match: the client does not hold the secret, or asks for something else.
    return undefined;
  }
}

/** The gate's own secret is the salt: a client's key that can be guessed is not enough to read a stolen store. */
function keyFor({ secret, paymentId, method, resource, bodyHash }: Purchased, gateKey: MemoKey): Uint8Array {
  const context = JSON.stringify(["turnpike replay", paymentId, method, resource, bodyHash ?? null]);
  const info = sha256(utf8ToBytes(context));
  return new Uint8Array(hkdfSync("sha256", utf8ToBytes(JSON.stringify(secret)), gateKey.secret, info, KEY_BYTES));
}
