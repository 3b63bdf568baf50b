/**
 * Verifies JSON Web Signatures in compact form by the key that their `kid` contains (`did:key`, `did:jwk`). Fetches
 * nothing: a key that only its server can show proves no more than the connection to that server.
 */
import { secp256k1 } from "@noble/curves/secp256k1";
import { parseStrictJson, sha256, utf8ToBytes } from "../../protocol";

export type JwsVerdict =
  /** keyId: the DID of the key */
  | { readonly kind: "signed"; readonly keyId: string; readonly payload: unknown }
  /** `key`: the key is not in `kid`; `signature`: it did not sign this */
  | { readonly kind: "faulty"; readonly fault: "malformed" | "key" | "signature" };

type Bytes = Uint8Array<ArrayBuffer>;

type Algorithm = "ES256K" | "EdDSA";

interface PublicKey {
  readonly algorithm: Algorithm;
  readonly bytes: Bytes;
}

const faulty = (fault: "malformed" | "key" | "signature"): JwsVerdict => ({ kind: "faulty", fault });

export async function verifyJws(compact: string): Promise<JwsVerdict> {
  const parts = compact.split(".");
  const [head = "", body = "", tail = ""] = parts;
  const header = objectIn(head);
  const payload = objectIn(body);
  const signature = bytesIn(tail);
  if (parts.length !== 3 || !header || !payload || !signature) return faulty("malformed");
  // Extensions that must be understood are not.
  if (header.crit !== undefined || typeof header.kid !== "string") return faulty("malformed");
  const [keyId = ""] = header.kid.split("#");
  const key = keyOf(keyId);
  if (!key || key.algorithm !== header.alg) return faulty("key");
  return (await isSigned(key, utf8ToBytes(`${head}.${body}`), signature))
    ? { kind: "signed", keyId, payload }
    : faulty("signature");
}

async function isSigned({ algorithm, bytes }: PublicKey, message: Uint8Array, signature: Bytes): Promise<boolean> {
  try {
    // Other libraries do not keep s low.
    if (algorithm === "ES256K") return secp256k1.verify(signature, sha256(message), bytes, { lowS: false });
    const key = await crypto.subtle.importKey("raw", bytes, "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", key, signature, Uint8Array.from(message));
  } catch {
    // A point off the curve, a signature of another length, or a runtime without Ed25519.
    return false;
  }
}

/** The key that a DID itself contains; undefined for any other DID. */
function keyOf(did: string): PublicKey | undefined {
  if (did.startsWith("did:key:z")) return keyOfMulticodec(base58Decoded(did.slice("did:key:z".length)));
  const jwk = did.startsWith("did:jwk:") ? objectIn(did.slice("did:jwk:".length)) : undefined;
  return jwk && keyOfJwk(jwk);
}

/** By the two bytes before the key. */
const MULTICODEC: Readonly<Record<string, Algorithm>> = { "237,1": "EdDSA", "231,1": "ES256K" };

function keyOfMulticodec(decoded: Bytes | undefined): PublicKey | undefined {
  const algorithm = decoded && MULTICODEC[decoded.slice(0, 2).join(",")];
  return algorithm && { algorithm, bytes: decoded.slice(2) };
}

function keyOfJwk({ kty, crv, x, y }: Readonly<Record<string, unknown>>): PublicKey | undefined {
  const first = typeof x === "string" ? bytesIn(x) : undefined;
  if (!first) return undefined;
  if (kty === "OKP" && crv === "Ed25519") return { algorithm: "EdDSA", bytes: first };
  const second = typeof y === "string" ? bytesIn(y) : undefined;
  if (kty !== "EC" || crv !== "secp256k1" || !second) return undefined;
  return { algorithm: "ES256K", bytes: Uint8Array.of(4, ...first, ...second) };
}

function objectIn(base64Url: string): Record<string, unknown> | undefined {
  const bytes = bytesIn(base64Url);
  try {
    return bytes && parseStrictJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    // Not UTF-8.
    return undefined;
  }
}

function bytesIn(base64Url: string): Bytes | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(base64Url) || base64Url.length % 4 === 1) return undefined;
  return Uint8Array.from(atob(base64Url.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
}

const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** The longest key that is read, characters. */
const MAX_BASE58 = 128;

function base58Decoded(text: string): Bytes | undefined {
  if (text.length === 0 || text.length > MAX_BASE58) return undefined;
  let number = 0n;
  for (const char of text) {
    const digit = BASE58.indexOf(char);
    if (digit < 0) return undefined;
    number = number * 58n + BigInt(digit);
  }
  const hex = number.toString(16);
  const pairs = (hex.length % 2 === 0 ? hex : `0${hex}`).match(/../g) ?? [];
  // Keys that are read here begin with no zero byte.
  return Uint8Array.from(pairs, (pair) => Number.parseInt(pair, 16));
}
