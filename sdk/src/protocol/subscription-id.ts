/**
 * Builds and parses `subscription.id`: subscriber (20 bytes) || secret (32 bytes). The id is a credential; only its
 * hash is public.
 */
import { type Address, checksum } from "./address";
import { concatBytes, type Hex, hexToBytes, keccak256, wordOfAddress } from "./hex";

const SUBSCRIPTION_ID = /^0x[0-9a-fA-F]{104}$/;

const HASH_32 = /^0x[0-9a-fA-F]{64}$/;

/** Returns whether a value is 0x and 64 hex digits. */
export function isHash32(value: unknown): value is Hex {
  return typeof value === "string" && HASH_32.test(value);
}

/** The credential: the subscriber's address, then the 32 secret bytes. Keep it out of logs. */
export function subscriptionId(subscriber: Address, secret: Hex): Hex {
  return `0x${subscriber.slice(2).toLowerCase()}${secret.slice(2).toLowerCase()}`;
}

/** The parts of a subscription id, and the hash that the chain knows it by. */
export interface ParsedSubscriptionId {
  readonly subscriber: Address;
  readonly secretHash: Hex;
  /** the key of the record on chain */
  readonly idHash: Hex;
}

/** @returns undefined when `id` is not 0x and 104 hex digits */
export function parseSubscriptionId(id: unknown): ParsedSubscriptionId | undefined {
  if (typeof id !== "string" || !SUBSCRIPTION_ID.test(id)) return undefined;
  const subscriber = checksum(`0x${id.slice(2, 42)}`);
  const secretHash = keccak256(hexToBytes(`0x${id.slice(42).toLowerCase()}`));
  return { subscriber, secretHash, idHash: idHashOf(subscriber, secretHash) };
}

/** As `Turnpike.idHashOf`: keccak256(abi.encode(subscriber, secretHash)). */
export function idHashOf(subscriber: Address, secretHash: Hex): Hex {
  return keccak256(concatBytes(wordOfAddress(subscriber), hexToBytes(secretHash)));
}

/** Returns the hash that represents the secret on chain. */
export function secretHashOf(secret: Hex): Hex {
  return keccak256(hexToBytes(secret));
}
