/**
 * Encodes and hashes bytes: hex strings, base64url, keccak256, SHA-256. Knows no domain rule.
 */
import { hmac } from "@noble/hashes/hmac";
import { sha256 as nobleSha256 } from "@noble/hashes/sha2";
import {
  bytesToHex,
  utf8ToBytes as encoded,
  concatBytes as joined,
  hexToBytes as nobleHexToBytes,
} from "@noble/hashes/utils";
import { aBytes, aList, aText, wrongKind } from "./arguments";
import { keccak256Of } from "./keccak";

/** Bytes in a row. */
export function concatBytes(...pieces: Uint8Array[]): Uint8Array {
  for (const piece of pieces) aBytes(piece, "piece");
  return joined(...pieces);
}

/** A text in UTF-8. */
export function utf8ToBytes(text: string): Uint8Array {
  aText(text, "text");
  return encoded(text);
}

/** 0x and hex digits. */
export type Hex = `0x${string}`;

/** Bytes as 0x and lower-case hex. */
export function toHex(bytes: Uint8Array): Hex {
  aBytes(bytes, "bytes");
  return `0x${bytesToHex(bytes)}`;
}

/** @throws ConfigError when `hex` is not an even number of hex digits after 0x */
export function hexToBytes(hex: Hex): Uint8Array {
  aText(hex, "hex");
  try {
    return nobleHexToBytes(hex.slice(2));
  } catch {
    throw wrongKind(hex, "hex", "0x and an even number of hex digits");
  }
}

/** Keccak-256 of bytes, as hex. */
export function keccak256(bytes: Uint8Array): Hex {
  aBytes(bytes, "bytes");
  return toHex(keccak256Of(bytes));
}

/** Keccak-256 of a text in UTF-8, as hex. */
export function keccakText(text: string): Hex {
  aText(text, "text");
  return keccak256(textToBytes(text));
}

// Node's own hashing where there is one: quotes and memos are on the hot path, and it is four times as fast.
const node = (globalThis as { process?: { getBuiltinModule?(id: string): unknown } }).process?.getBuiltinModule?.(
  "node:crypto",
) as typeof import("node:crypto") | undefined;

/** SHA-256 of bytes. */
export function sha256(bytes: Uint8Array): Uint8Array {
  aBytes(bytes, "bytes");
  return node ? node.createHash("sha256").update(bytes).digest() : nobleSha256(bytes);
}

/** SHA-256 of bytes in pieces, which are not joined. */
export function sha256Of(pieces: readonly Uint8Array[]): Uint8Array {
  aList(pieces, "pieces");
  const hash = node ? node.createHash("sha256") : nobleSha256.create();
  for (const piece of pieces) {
    aBytes(piece, "piece");
    hash.update(piece);
  }
  return hash.digest();
}

/** HMAC-SHA256 of a message. */
export function hmacSha256(key: Uint8Array, message: Uint8Array): Uint8Array {
  aBytes(key, "key");
  aBytes(message, "message");
  return node ? node.createHmac("sha256", key).update(message).digest() : hmac(nobleSha256, key, message);
}

/** Compares in constant time: does not leak the position of the first difference. */
export function equalConstantTime(a: Uint8Array, b: Uint8Array): boolean {
  aBytes(a, "a");
  aBytes(b, "b");
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= (a[i] ?? 0) ^ (b[i] ?? 0);
  return difference === 0;
}

/** Node's, where there is one: several times as fast as the platform's. Bundlers for browsers put nothing in its place. */
export const NodeBuffer = (globalThis as { Buffer?: typeof Buffer }).Buffer;

const BASE64URL = /^[A-Za-z0-9_-]*$/;

/** Returns a text in UTF-8, for hashing: the bytes may be a view into a larger buffer. */
export const textToBytes: (text: string) => Uint8Array = NodeBuffer
  ? (text) => {
      aText(text, "text");
      return NodeBuffer.from(text, "utf8");
    }
  : utf8ToBytes;

/** Bytes as base64url without padding. */
export function toBase64Url(bytes: Uint8Array): string {
  aBytes(bytes, "bytes");
  if (NodeBuffer) return NodeBuffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64url");
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @returns undefined when `text` is not the one canonical unpadded base64url form of some bytes. */
export function fromBase64Url(text: string): Uint8Array | undefined {
  aText(text, "text");
  if (!BASE64URL.test(text) || text.length % 4 === 1) return undefined;
  if (NodeBuffer) {
    const read = Uint8Array.from(NodeBuffer.from(text, "base64url"));
    return toBase64Url(read) === text ? read : undefined;
  }
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
  return toBase64Url(bytes) === text ? bytes : undefined;
}

/** Bytes from the platform's secure source. */
export function randomBytes(length: number): Uint8Array {
  if (!(Number.isSafeInteger(length) && length >= 0 && length <= 65_536))
    throw wrongKind(length, "length", "a whole number from 0 to 65536");
  return crypto.getRandomValues(new Uint8Array(length));
}
