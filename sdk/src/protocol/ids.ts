/**
 * Names payments, plans and subscriptions. Ids are hashes of what they name, so that anyone can check them. A
 * `subscription.id` is a credential: subscriber (20 bytes) || secret (32 bytes); only its hash is public.
 */
import { type Address, checksum } from "./address";
import { aText, fieldsOf } from "./arguments";
import {
  abiEncodeStrings,
  concatBytes,
  type Hex,
  hexToBytes,
  keccak256,
  keccakText,
  WORD,
  wordOfAddress,
  wordOfUint,
  writeAddress,
  writeHash,
  writeUint,
} from "./hex";
import type { PeriodLength } from "./periods";

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
export function paymentIdOf(key: PaymentKey): Hex {
  const { chainId, token, payer, nonce } = fieldsOf(key, "key");
  const words = new Uint8Array(4 * WORD);
  writeUint(words, 0, chainId, "key.chainId");
  writeAddress(words, WORD, token, "key.token");
  writeAddress(words, 2 * WORD, payer, "key.payer");
  writeHash(words, 3 * WORD, nonce, "key.nonce");
  return keccak256(words);
}

/** Every term that goes into a planId; amounts in base units, times in seconds. */
export interface PlanPreimage extends PeriodLength {
  readonly chainId: number;
  readonly turnpike: Address;
  readonly provider: Address;
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  readonly graceSec: number;
  /** the payee at creation: it can move later */
  readonly payTo: Address;
  readonly salt: Hex;
  /** the JSON text as it was emitted, byte for byte */
  readonly metadata: string;
}

/**
 * keccak256(abi.encode(chainId, turnpike, provider, terms, salt, keccak256(metadata))).
 * @see Plans.createPlan in contracts/Plans.sol
 */
export function planIdOf(plan: PlanPreimage): Hex {
  fieldsOf(plan, "plan");
  return keccak256(
    concatBytes(
      wordOfUint(plan.chainId, "plan.chainId"),
      wordOfAddress(plan.turnpike, "plan.turnpike"),
      wordOfAddress(plan.provider, "plan.provider"),
      wordOfAddress(plan.token, "plan.token"),
      wordOfUint(plan.amount, "plan.amount"),
      wordOfUint(plan.months || plan.intervalSec),
      wordOfUint(plan.months > 0 ? 1 : 0),
      wordOfUint(plan.graceSec, "plan.graceSec"),
      wordOfAddress(plan.payTo, "plan.payTo"),
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

/** What the contract has where there is no plan: no scheduled change, no successor, the record of a voided signup. */
export const NO_PLAN: Hex = `0x${"0".repeat(64)}`;

/** Returns an id that the contract answers; undefined where it has none. */
export const idOrNone = (word: string): Hex | undefined => (word === NO_PLAN ? undefined : (word as Hex));

/** The credential: the subscriber's address, then the 32 secret bytes. Keep it out of logs. */
export function subscriptionId(subscriber: Address, secret: Hex): Hex {
  aText(subscriber, "subscriber");
  aText(secret, "secret");
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
  aText(subscriber, "subscriber");
  aText(secretHash, "secretHash");
  return keccak256(concatBytes(wordOfAddress(subscriber), hexToBytes(secretHash)));
}

/** The lens that a Turnpike creates as its first contract: keccak256(rlp([turnpike, 1])), the last 20 bytes. */
export function lensAddressOf(turnpike: Address): Address {
  const rlp = concatBytes(new Uint8Array([0xd6, 0x94]), hexToBytes(turnpike), new Uint8Array([0x01]));
  return checksum(`0x${keccak256(rlp).slice(26)}`);
}

/** Returns the hash that represents the secret on chain. */
export function secretHashOf(secret: Hex): Hex {
  aText(secret, "secret");
  return keccak256(hexToBytes(secret));
}
