/** How a shared meter's books stand in cells: one per subscription, one for the lane that sends. Amounts as "123n". */
import type { Hex } from "../../protocol/hex";
import type { Account, Batch, Totals } from "./books";
import { fromJson, toJson } from "./entry-line";

export interface Lane {
  /** the process that sends; "" when nobody does */
  readonly owner: string;
  /** unix milliseconds, by the store's clock */
  readonly leaseUntilMs: number;
  /** counts every change, so that no two texts are the same */
  readonly turn: number;
  readonly batches: readonly Batch[];
  readonly recent: readonly Batch[];
  readonly successors: readonly (readonly [Hex, Hex])[];
  readonly totals: Totals;
  readonly nextBatch: number;
}

const EMPTY: Lane = {
  owner: "",
  leaseUntilMs: 0,
  turn: 0,
  batches: [],
  recent: [],
  successors: [],
  totals: { charged: 0n, settled: 0n, lost: 0n },
  nextBatch: 1,
};

export const laneText = (lane: Lane): string => JSON.stringify(lane, toJson);
export const readLane = (text: string | undefined): Lane =>
  text === undefined ? EMPTY : (JSON.parse(text, fromJson) as Lane);

/** @param hurried a gate waits for this subscription's debit; stands first, so that it is seen without reading all */
export function accountText(account: Account, hurried = false): string {
  return JSON.stringify(hurried ? { hurried, account } : { account }, toJson);
}

/** A fresh object each time: the caller may change it. */
export function readAccount(text: string): Account {
  const { account } = JSON.parse(text, fromJson) as { account: Account };
  // JSON leaves out what is undefined.
  return { ...account, blocked: account.blocked };
}
