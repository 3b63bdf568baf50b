/** Writes ABI words: 32 bytes for each value, straight into one array. Knows no domain rule. */
import { type Hex, textToBytes } from "./hex";

/** Bytes of one ABI word. */
export const WORD = 32;

/** @returns no number from 0 to 15 for what is no hex digit */
function digitOf(code: number): number {
  if (code < 58) return code - 48;
  return code < 65 ? -1 : code < 97 ? code - 55 : code - 87;
}

/** Writes the digits after 0x, two for each byte. @throws RangeError for what is no hex digit */
function writeHex(into: Uint8Array, at: number, hex: string): void {
  let seen = 0;
  for (let i = 2; i < hex.length; i += 2) {
    const high = digitOf(hex.charCodeAt(i));
    const low = digitOf(hex.charCodeAt(i + 1));
    seen |= high | low;
    into[at + (i >> 1) - 1] = (high << 4) | low;
  }
  if (seen >>> 4 !== 0) throw new RangeError("hex expected");
}

/** Writes 32 bytes. @throws RangeError for any other value */
export function writeHash(into: Uint8Array, at: number, hash: Hex): void {
  if (hash.length !== 2 + 2 * WORD) throw new RangeError("32 bytes expected");
  writeHex(into, at, hash);
}

/** @throws RangeError for a value that is not an unsigned integer of 256 bits */
export function writeUint(into: Uint8Array, at: number, value: bigint | number): void {
  let rest = Number(value);
  if (Number.isSafeInteger(rest) && rest >= 0) {
    // The array keeps the low byte of each.
    for (let i = at + WORD - 1; rest > 0; i--, rest = Math.floor(rest / 256)) into[i] = rest;
  } else {
    const digits = BigInt(value).toString(16);
    writeHash(into, at, `0x${digits.padStart(2 * WORD, "0")}`);
  }
}

/** Writes 20 bytes aligned right. @throws RangeError for any other value */
export function writeAddress(into: Uint8Array, at: number, address: string): void {
  if (address.length !== 42) throw new RangeError("20 bytes expected");
  writeHex(into, at + 12, address);
}

/** One 32-byte ABI word of an unsigned integer. */
export function wordOfUint(value: bigint | number): Uint8Array {
  const word = new Uint8Array(WORD);
  writeUint(word, 0, value);
  return word;
}

/** One 32-byte ABI word of an address, aligned right. */
export function wordOfAddress(address: string): Uint8Array {
  const word = new Uint8Array(WORD);
  writeAddress(word, 0, address);
  return word;
}

/** `abi.encode(string, string, ...)`: heads with offsets, then length-prefixed padded tails. */
export function abiEncodeStrings(...texts: string[]): Uint8Array {
  const tails = texts.map(textToBytes);
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
