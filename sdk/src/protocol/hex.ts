/** Encodes and hashes bytes: hex strings, base64url, ABI words, Keccak-256, SHA-256. Knows no domain rule. */
/// <reference path="./hash-wasm.d.ts" />

import { hmac } from "@noble/hashes/hmac";
import { sha256 as nobleSha256 } from "@noble/hashes/sha2";
import { keccak_256 } from "@noble/hashes/sha3";
import {
  bytesToHex,
  utf8ToBytes as encoded,
  concatBytes as joined,
  hexToBytes as nobleHexToBytes,
} from "@noble/hashes/utils";
import hashWasm from "hash-wasm/dist/keccak.umd.min.js";
import { aBytes, aList, aText, wrongKind } from "./arguments";

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

/**
 * Keccak-256, which every id and signature of this project uses. Servers hash in WebAssembly, eight times as fast as the
 * portable library, once it is compiled. Browsers hash with the portable one, because a content security policy may forbid
 * WebAssembly: `browser` in package.json leaves hash-wasm out of bundles. The tests compare both.
 */
type Hash = (bytes: Uint8Array) => Uint8Array;

export const portableKeccak256: Hash = (bytes) => keccak_256(bytes);

/** @returns undefined where there is no WebAssembly, or making code at run time is forbidden */
export async function fastKeccak256(): Promise<Hash | undefined> {
  try {
    const hasher = await hashWasm.createKeccak(256);
    return (bytes) => hasher.init().update(bytes).digest("binary");
  } catch {
    return undefined;
  }
}

const isServer = (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined;

let hash: Hash | undefined;

/** @returns 32 bytes */
export function keccak256Of(bytes: Uint8Array): Uint8Array {
  if (!hash) {
    hash = portableKeccak256;
    if (isServer) void fastKeccak256().then((fast = portableKeccak256) => (hash = fast));
  }
  return hash(bytes);
}

/** Bytes of one ABI word. */
export const WORD = 32;

/** @returns no number from 0 to 15 for what is no hex digit */
function digitOf(code: number): number {
  if (code < 58) return code - 48;
  return code < 65 ? -1 : code < 97 ? code - 55 : code - 87;
}

/** Writes the digits after 0x, two for each byte. @returns whether all were hex digits */
function writeHex(into: Uint8Array, at: number, hex: string): boolean {
  let seen = 0;
  for (let i = 2; i < hex.length; i += 2) {
    const high = digitOf(hex.charCodeAt(i));
    const low = digitOf(hex.charCodeAt(i + 1));
    seen |= high | low;
    into[at + (i >> 1) - 1] = (high << 4) | low;
  }
  return seen >>> 4 === 0;
}

/** Writes 32 bytes. @throws ConfigError for any other value */
export function writeHash(into: Uint8Array, at: number, hash: Hex, field = "hash"): void {
  if (typeof hash !== "string" || hash.length !== 2 + 2 * WORD || !writeHex(into, at, hash))
    throw wrongKind(hash, field, "0x and 64 hex digits");
}

/** @throws ConfigError for a value that is not an unsigned integer of 256 bits */
export function writeUint(into: Uint8Array, at: number, value: bigint | number, field = "value"): void {
  let rest = typeof value === "bigint" || typeof value === "number" ? Number(value) : Number.NaN;
  if (Number.isSafeInteger(rest) && rest >= 0) {
    // The array keeps the low byte of each.
    for (let i = at + WORD - 1; rest > 0; i--, rest = Math.floor(rest / 256)) into[i] = rest;
  } else if (typeof value === "bigint" && value >= 0n && value >> 256n === 0n) {
    writeHex(into, at, `0x${value.toString(16).padStart(2 * WORD, "0")}`);
  } else throw wrongKind(value, field, "a whole number from 0 to 2^256 - 1, as a number or a bigint");
}

/** Writes 20 bytes aligned right. @throws ConfigError for any other value */
export function writeAddress(into: Uint8Array, at: number, address: string, field = "address"): void {
  if (typeof address !== "string" || address.length !== 42 || !writeHex(into, at + 12, address))
    throw wrongKind(address, field, "0x and 40 hex digits");
}

/** One 32-byte ABI word of an unsigned integer. */
export function wordOfUint(value: bigint | number, field?: string): Uint8Array {
  const word = new Uint8Array(WORD);
  writeUint(word, 0, value, field);
  return word;
}

/** One 32-byte ABI word of an address, aligned right. */
export function wordOfAddress(address: string, field?: string): Uint8Array {
  const word = new Uint8Array(WORD);
  writeAddress(word, 0, address, field);
  return word;
}

/** `abi.encode(string, string, ...)`: heads with offsets, then length-prefixed padded tails. */
export function abiEncodeStrings(...texts: string[]): Uint8Array {
  const tails = texts.map((text) => textToBytes(text));
  const padded = (bytes: Uint8Array): number => Math.ceil(bytes.length / WORD) * WORD;
  let at = texts.length * WORD;
  const words = new Uint8Array(tails.reduce((sum, bytes) => sum + WORD + padded(bytes), at));
  tails.forEach((bytes, index) => {
    writeUint(words, index * WORD, at);
    writeUint(words, at, bytes.length);
    words.set(bytes, at + WORD);
    at += WORD + padded(bytes);
  });
  return words;
}
