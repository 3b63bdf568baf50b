/**
 * Calls views of contracts and reads heads, without a chain library: agents in browsers do so too. Answers are words of
 * 32 bytes.
 */
import {
  type Address,
  checksum,
  concatBytes,
  type Hex,
  hexToBytes,
  isHash32,
  keccakText,
  lensAddressOf,
  toHex,
  Unavailable,
  wordOfUint,
} from "../protocol";
import { aList, aText, wrongKind } from "../protocol/arguments";
import type { NonceView } from "../protocol/transfer-methods";
import { requireRpc } from "./require-rpc";

/** What sends calls to a chain. */
export interface Caller {
  /** @throws Unavailable when no endpoint answers; TurnpikeError when the contract reverts by name */
  send<T>(method: string, params: readonly unknown[]): Promise<T>;
}

/** `reason` of an Unavailable where the chain did answer, but the contract has no such function or reverted bare. */
export const NO_ANSWER = "no_answer";

/** One call of a view. */
export interface WordsCall {
  readonly to: Address;
  /** its signature: "balanceOf(address)" */
  readonly view: string;
  /** 32 bytes each */
  readonly words: readonly Uint8Array[];
  /** a block's number in hex; default: the newest block */
  readonly block?: string;
}

/** The words that a view returned. */
export class Words {
  readonly #hex: string;

  /** @param hex without 0x */
  constructor(hex: string) {
    this.#hex = hex;
  }

  /** @throws Unavailable where the answer is too short; so do the others */
  hash(index: number): Hex {
    const word = this.#hex.slice(64 * index, 64 * index + 64);
    if (word.length === 64) return `0x${word.toLowerCase()}`;
    throw new Unavailable("A contract's answer is too short.", { reason: NO_ANSWER });
  }

  uint(index: number): bigint {
    return BigInt(this.hash(index));
  }

  number(index: number): number {
    return Number(this.uint(index));
  }

  flag(index: number): boolean {
    return this.uint(index) !== 0n;
  }

  address(index: number): Address {
    return checksum(`0x${this.hash(index).slice(26)}`);
  }

  /** Returns the words from one of them on. */
  from(index: number): Words {
    return new Words(this.#hex.slice(64 * index));
  }
}

const WORDS = /^0x((?:[0-9a-fA-F]{64})+)$/;

/** @throws Unavailable, also where nothing answers: is there such a contract? */
export async function callWords(rpc: Caller, { to, view, words, block = "latest" }: WordsCall): Promise<Words> {
  const selector = hexToBytes(keccakText(view)).slice(0, 4);
  const answer = await rpc.send<unknown>("eth_call", [{ to, data: toHex(concatBytes(selector, ...words)) }, block]);
  const [, hex] = typeof answer === "string" ? (WORDS.exec(answer) ?? []) : [];
  if (hex !== undefined) return new Words(hex);
  throw new Unavailable(`${view} of ${to} gave no readable answer: is there such a contract on this chain?`, {
    reason: NO_ANSWER,
  });
}

/** Returns whether a payment's nonce was used, whatever it bought. @throws Unavailable */
export async function readNonceUse(rpc: Caller, { isUsed, ...view }: NonceView, block?: string): Promise<boolean> {
  return isUsed((await callWords(rpc, { ...view, ...(block && { block }) })).uint(0));
}

/** A call of a view of Turnpike's lens that takes a list of ids and returns one struct for each. */
export interface ListCall {
  readonly turnpike: Address;
  readonly view: string;
  readonly ids: readonly Hex[];
  /** names `ids` in errors */
  readonly field: string;
  /** words of one struct */
  readonly size: number;
  readonly block?: string;
}

/** @returns the words of each struct, in the order of the ids. @throws Unavailable */
export async function readEach(rpc: Caller, { turnpike, view, ids, field, size, block }: ListCall): Promise<Words[]> {
  requireRpc(rpc);
  aText(turnpike, "turnpike");
  aList(ids, field);
  for (const id of ids) if (!isHash32(id)) throw wrongKind(id, field, "0x and 64 hex digits");
  const words = [wordOfUint(32), wordOfUint(ids.length), ...ids.map(hexToBytes)];
  const answer = await callWords(rpc, { to: lensAddressOf(turnpike), view, words, ...(block && { block }) });
  // After the list's offset and its length.
  return ids.map((_, i) => answer.from(2 + i * size));
}

/** Returns the newest block: its number in hex, and its time in unix seconds. @throws Unavailable */
export async function readHead(rpc: Caller): Promise<{ readonly number: string; readonly timeSec: number }> {
  const head = await rpc.send<{ number?: unknown; timestamp?: unknown } | null>("eth_getBlockByNumber", [
    "latest",
    false,
  ]);
  const { number } = head ?? {};
  const timeSec = Number(head?.timestamp);
  if (typeof number === "string" && /^0x[0-9a-fA-F]{1,13}$/.test(number) && Number.isSafeInteger(timeSec)) {
    return { number, timeSec };
  }
  throw new Unavailable("The chain's newest block has no number or no time.", { retryAfterSec: 2 });
}

/**
 * Returns whether an address has code: it is a contract, or delegates to one.
 * @throws Unavailable
 */
export async function hasCode(rpc: Caller, address: Hex): Promise<boolean> {
  requireRpc(rpc);
  aText(address, "address");
  const code = await rpc.send<unknown>("eth_getCode", [address, "latest"]);
  if (typeof code === "string" && /^0x[0-9a-fA-F]*$/.test(code)) return code.length > 2;
  throw new Unavailable(`The chain does not say whether ${address} is a contract.`);
}
