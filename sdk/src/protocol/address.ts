/**
 * Checks addresses and writes them in EIP-55 form; every address on the wire is written so (stock v1 clients compare by
 * case).
 */
import { aText, wrongKind } from "./arguments";
import { BoundedMap } from "./bounded-map";
import { ConfigError } from "./errors";
import { type Hex, keccak256Of, textToBytes } from "./hex";

/** 20 bytes as 0x and 40 hex digits; EIP-55 checksummed wherever this package makes one. */
export type Address = Hex;

/** The zero address. */
export const ZERO_ADDRESS: Address = "0x0000000000000000000000000000000000000000";

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;

const cache = new BoundedMap<string, Address>(10_000);

/** Accepts any case, and a wrong checksum: programs write what is on the wire. People write settings: `configuredAddress`. */
export function isAddress(value: unknown): value is Address {
  return typeof value === "string" && ADDRESS.test(value);
}

/**
 * Returns what is wrong with an address that a person configured: in mixed case, a checksum that does not match. All
 * lower and all upper case have no checksum.
 */
export function checksumFault(address: Address): string | undefined {
  aText(address, "address");
  const digits = address.slice(2);
  const isMixed = /[a-f]/.test(digits) && /[A-F]/.test(digits);
  return isMixed && checksum(address) !== address ? `${address} fails its checksum: a digit was mistyped` : undefined;
}

/**
 * Reads an address that a person configured, in EIP-55 form.
 * @param malformed the message for what is no address
 * @throws ConfigError
 */
export function configuredAddress(value: unknown, field: string, malformed: string): Address {
  aText(field, "field");
  aText(malformed, "malformed");
  requireNoKey(value, field);
  if (!isAddress(value)) throw new ConfigError(malformed);
  const fault = checksumFault(value);
  if (fault) throw new ConfigError(`${field} ${fault}`);
  return checksum(value);
}

/** Refuses what may be a private key without a word of it. @throws ConfigError */
export function requireNoKey(value: unknown, field: string): void {
  if (typeof value !== "string" || !/^(?:0x)?[0-9a-f]{64}$/i.test(value.trim())) return;
  throw new ConfigError(`${field} has the form of a private key, not shown here: an address is 0x and 40 hex digits`);
}

/** The EIP-55 form of an address in any case. Remembers recent ones: a gate sees the same few all day. */
export function checksum(address: string): Address {
  const known = cache.get(address);
  if (known) return known;
  if (!isAddress(address)) throw wrongKind(address, "address", "0x and 40 hex digits");
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
  aText(a, "a");
  aText(b, "b");
  return a.toLowerCase() === b.toLowerCase();
}
