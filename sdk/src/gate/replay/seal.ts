/**
 * Encrypts an answer under a key derived from its secret and from what was bought. The store alone reveals nothing, and
 * another method, resource or body decrypts nothing. AES-256-GCM, HKDF with SHA-256.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { type Hex, type MemoKey, sha256, utf8ToBytes } from "../../protocol";

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
