/** Writes ABI words: 32 bytes for each value, straight into one array. Knows no domain rule. */
import { wrongKind } from "./arguments";
import { type Hex, textToBytes } from "./hex";

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
