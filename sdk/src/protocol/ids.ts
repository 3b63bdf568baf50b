/**
 * Computes the ids of payments, plans and subscriptions: hashes of what they name, so that anyone can check them. A
 * `subscription.id` is a credential: subscriber (20 bytes) || secret (32 bytes); only its hash is public.
 */
import { type Address, checksum } from "./address";
import { concatBytes, type Hex, hexToBytes, keccak256, keccakText } from "./hex";
import { abiEncodeStrings, WORD, wordOfAddress, wordOfUint, writeAddress, writeHash, writeUint } from "./words";

/** The EIP-3009 nonce of a native payment: the payer's signature thereby covers `ref` and `resource`. */
export function paymentNonce(ref: string, resource: string): Hex {
  return keccak256(abiEncodeStrings(ref, resource));
}

/** What names one payment: two payers of one memo are two payments. */
export interface PaymentKey {
  readonly chainId: number;
  readonly token: Address;
  readonly payer: Address;
  readonly nonce: Hex;
}

/** keccak256(abi.encode(uint256 chainId, address token, address payer, bytes32 nonce)): of claims, proofs, status. */
export function paymentIdOf({ chainId, token, payer, nonce }: PaymentKey): Hex {
  const words = new Uint8Array(4 * WORD);
  writeUint(words, 0, chainId);
  writeAddress(words, WORD, token);
  writeAddress(words, 2 * WORD, payer);
  writeHash(words, 3 * WORD, nonce);
  return keccak256(words);
}

/** Every term that goes into a planId; amounts in base units, times in seconds. */
export interface PlanPreimage {
  readonly provider: Address;
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  readonly intervalSec: number;
  readonly graceSec: number;
  readonly payTo: Address;
  readonly salt: Hex;
  /** the JSON text as it was emitted, byte for byte */
  readonly metadata: string;
}

/** keccak256(abi.encode(provider, terms, salt, keccak256(metadata))). @see Plans.createPlan in contracts/Plans.sol */
export function planIdOf(plan: PlanPreimage): Hex {
  return keccak256(
    concatBytes(
      wordOfAddress(plan.provider),
      wordOfAddress(plan.token),
      wordOfUint(plan.amount),
      wordOfUint(plan.intervalSec),
      wordOfUint(plan.graceSec),
      wordOfAddress(plan.payTo),
      hexToBytes(plan.salt),
      hexToBytes(keccakText(plan.metadata)),
    ),
  );
}

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
