/**
 * Checks addresses and writes them in EIP-55 form; every address on the wire is written so (stock v1 clients compare by
 * case).
 */
import { BoundedMap } from "./bounded-map";
import { type Hex, textToBytes } from "./hex";
import { keccak256Of } from "./keccak";

/** 20 bytes as 0x and 40 hex digits; EIP-55 checksummed wherever this package makes one. */
export type Address = Hex;

/** The zero address. */
export const ZERO_ADDRESS: Address = "0x0000000000000000000000000000000000000000";

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;

const cache = new BoundedMap<string, Address>(10_000);

/** Accepts any case, and a wrong checksum: the checksum protects typed addresses, and programs write these. */
export function isAddress(value: unknown): value is Address {
  return typeof value === "string" && ADDRESS.test(value);
}

/** The EIP-55 form of an address in any case. Remembers recent ones: a gate sees the same few all day. */
export function checksum(address: string): Address {
  const known = cache.get(address);
  if (known) return known;
  const lower = address.slice(2).toLowerCase();
  const upper = lower.toUpperCase();
  const hash = keccak256Of(textToBytes(lower));
  let out = "0x";
  // Each digit's case is the highest bit of the hash's digit at its place.
  for (let i = 0; i < 40; i++) out += (hash[i >> 1] as number) & (i % 2 === 0 ? 0x80 : 0x08) ? upper[i] : lower[i];
  cache.set(address, out as Address);
  return out as Address;
}

/** Returns whether two addresses are one, whatever their case. */
export function sameAddress(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}
