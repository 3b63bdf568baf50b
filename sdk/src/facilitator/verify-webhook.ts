/**
 * Signs and verifies webhooks by Standard Webhooks: `HMAC-SHA256(secret, id.timestamp.body)`. Works on the bytes as
 * received; parsing and serialising the body again changes them.
 */
import { ConfigError, equalConstantTime, hmacSha256, InvalidWebhook, utf8ToBytes } from "../protocol";
import { isObject, kindOf } from "../protocol/arguments";
import {
  isWebhookEventType,
  TEST_EVENT_TYPE,
  type WebhookEvent,
  webhookEnvelopeSchema,
  webhookEventSchemaOf,
} from "./webhook-events";

/** Node's, fetch's, or any record with the names in whatever case. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/** How strict, and by which clock. */
export interface VerifyWebhookOptions {
  /** how old, or how far ahead, the timestamp may be; default 300 */
  readonly toleranceSec?: number;
  /** unix seconds; default this machine's clock */
  readonly nowSec?: number;
}

const DEFAULT_TOLERANCE_SEC = 300;

/** More than this is an attack: two are enough for a rotation. */
const MAX_SIGNATURES = 16;

/**
 * The event, when one of the secrets signed it and it is fresh. A replay within the tolerance is the same event with
 * the same `id`: act on an id once.
 * @param body exactly as received: text or bytes
 * @param secrets `whsec_...` of the endpoint; both while it is being rotated
 * @throws InvalidWebhook with `reason` headers, timestamp, signature or body; ConfigError for a malformed secret
 */
export function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions = {},
): WebhookEvent {
  requireRaw(body);
  const { toleranceSec = DEFAULT_TOLERANCE_SEC, nowSec = Math.floor(Date.now() / 1_000) } = options;
  if (!isObject(headers)) throw refused("headers", "no headers are given: pass those of the request");
  const id = headerOf(headers, "webhook-id");
  const timestamp = headerOf(headers, "webhook-timestamp");
  const signatures = headerOf(headers, "webhook-signature");
  if (!id || !timestamp || !signatures) throw refused("headers", "webhook-id, -timestamp or -signature is missing");
  const sentSec = /^[0-9]{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN;
  if (!(Math.abs(nowSec - sentSec) <= toleranceSec)) throw refused("timestamp", "it is too old, or from the future");

  const text = typeof body === "string" ? body : decode(body);
  const keys = (Array.isArray(secrets) ? (secrets as readonly string[]) : [secrets as string]).map(webhookKeyOf);
  if (!isSignedByOne({ id, timestamp, body: text }, signatures, keys))
    throw refused(
      "signature",
      "no known secret made its signature. Check that the body is the raw one, as it was received: one that was parsed and written again has other bytes; and that the secret is this endpoint's",
    );
  const event = readEvent(text);
  // The header is signed and so is the body: that they differ cannot happen to an honest sender.
  if (event.id !== id) throw refused("body", "the body is about another event than the header");
  return event;
}

/** What a JSON parser has made of the body is signed by nobody. */
function requireRaw(body: unknown): void {
  if (typeof body === "string" || body instanceof Uint8Array) return;
  throw refused(
    "body",
    `the body is ${kindOf(body)}: give verifyWebhook the raw body, text or bytes as received, by a route without a JSON parser, as express.raw({ type: "application/json" })`,
  );
}

function isSignedByOne(signed: SignedWebhook, signatures: string, keys: readonly Uint8Array[]): boolean {
  const given = signatures
    .split(" ", MAX_SIGNATURES)
    .filter((one) => one.startsWith("v1,"))
    .map((one) => utf8ToBytes(one.slice(3)));
  let isSigned = false;
  for (const key of keys) {
    const expected = utf8ToBytes(webhookSignature(key, signed));
    for (const one of given) isSigned = equalConstantTime(one, expected) || isSigned;
  }
  return isSigned;
}

function readEvent(text: string): WebhookEvent {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw refused("body", "the body is not JSON", cause);
  }
  const read = webhookEnvelopeSchema.safeParse(json);
  if (!read.success) throw refused("body", `${read.error.issues[0]?.path.join(".") || "body"} is malformed`);
  const event = read.data;
  if (event.type === TEST_EVENT_TYPE) return { ...event, type: TEST_EVENT_TYPE };
  if (!isWebhookEventType(event.type)) return { ...event, type: "unknown", name: event.type };
  const typed = webhookEventSchemaOf(event.type).safeParse(json);
  if (!typed.success) throw refused("body", `${typed.error.issues[0]?.path.join(".") || "body"} is malformed`);
  return typed.data as WebhookEvent;
}

function headerOf(headers: WebhookHeaders, name: string): string | undefined {
  if (typeof (headers as Headers).get === "function") return (headers as Headers).get(name) ?? undefined;
  for (const [key, value] of Object.entries(headers as Record<string, string | readonly string[] | undefined>)) {
    if (key.toLowerCase() === name) return typeof value === "string" ? value : value?.[0];
  }
  return undefined;
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw refused("body", "the body is not UTF-8: give verifyWebhook the raw body, not compressed", cause);
  }
}

const refused = (reason: string, message: string, cause?: unknown) =>
  new InvalidWebhook(`The webhook is refused: ${message}.`, { reason, ...(cause === undefined ? {} : { cause }) });

const SECRET_PREFIX = "whsec_";

const NO_SECRET = "A webhook secret is `whsec_` and base64 of 16 bytes or more.";

/** What a signature covers. */
export interface SignedWebhook {
  readonly id: string;
  /** unix seconds, as the header has them */
  readonly timestamp: string;
  /** exactly as sent */
  readonly body: string;
}

/** @throws ConfigError for a secret that is no secret: nothing may be accepted under an empty key */
export function webhookKeyOf(secret: string): Uint8Array {
  if (typeof secret !== "string") throw new ConfigError(NO_SECRET);
  const encoded = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret;
  const key = fromBase64(encoded);
  if (!key || key.length < 16) throw new ConfigError(NO_SECRET);
  return key;
}

/** Returns the signature of one key in base64, without its version. */
export function webhookSignature(key: Uint8Array, { id, timestamp, body }: SignedWebhook): string {
  return toBase64(hmacSha256(key, utf8ToBytes(`${id}.${timestamp}.${body}`)));
}

/** Makes a webhook secret of these random bytes. */
export function webhookSecretOf(bytes: Uint8Array): string {
  return `${SECRET_PREFIX}${toBase64(bytes)}`;
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

function fromBase64(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || text.length % 4 !== 0) return undefined;
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
