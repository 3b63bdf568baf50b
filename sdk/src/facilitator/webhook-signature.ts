/** Signs the bytes of a webhook by Standard Webhooks: `HMAC-SHA256(secret, id.timestamp.body)`. */
import { ConfigError, hmacSha256, utf8ToBytes } from "../protocol";

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
