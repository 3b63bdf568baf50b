/**
 * Defines the interface between a meter and the chain: the facts that it clips by, and the sender of its debits (an
 * operator's own transactions, or a Facilitator). Types only; `operator.ts` and the gate's Facilitator sender implement
 * them.
 */
import type { ErrorCode } from "../protocol/errors";
import type { Hex } from "../protocol/hex";
import type { SubscriptionStatus } from "../protocol/periods";

/** One subscription's allowance, all fields from one read at one block; amounts in token base units. */
export interface AllowanceFacts {
  readonly cap: bigint;
  /** in the current cycle */
  readonly spent: bigint;
  /** debits ever made: the next debit's index */
  readonly debits: number;
  /** unix seconds; the cycle's end */
  readonly paidThroughSec: number;
  /** of the record: its subscriber's changes raise it */
  readonly version: number;
  readonly blockNumber: number;
}

export interface MeteredState extends AllowanceFacts {
  readonly idHash: Hex;
  readonly status: SubscriptionStatus;
}

/** Uncached reads for the sender of debits. All reject with Unavailable on an outage. */
export interface MeterStates {
  /** one state for each idHash, in order, all at one block */
  read(idHashes: readonly Hex[]): Promise<readonly MeteredState[]>;
  /** where a rekey at or after `sinceBlock` moved this record, if one did */
  rekeyedTo(idHash: Hex, sinceBlock: number): Promise<Hex | undefined>;
  /** whether the newest finalised block is at or after `sinceBlock` and has no such subscription; false when unknown */
  isRemoved(idHash: Hex, sinceBlock: number): Promise<boolean>;
}

/** `index` makes a retry exact: the chain takes each index of a subscription once. */
export interface DebitItem {
  readonly idHash: Hex;
  readonly amount: bigint;
  readonly index: number;
}

/** Signed transactions, not sent yet: what a journal keeps before anything leaves. */
export interface PreparedDebits {
  /** what the payload will debit; may be fewer than asked for, the rest is untouched */
  readonly items: readonly DebitItem[];
  /** what would fail now, and why; not part of the payload */
  readonly refused: readonly { readonly item: DebitItem; readonly reason: ErrorCode }[];
  /** everything needed to send exactly these debits again, and no secret; undefined when there are no items */
  readonly payload: string | undefined;
}

/** `void`: this debit did not happen and never will; the amount is free to be debited under a fresh index. */
export type DebitResult =
  | { readonly kind: "settled" }
  | { readonly kind: "failed"; readonly reason: ErrorCode }
  | { readonly kind: "void" };

/** The outcome of debits on chain. */
export type DebitOutcome =
  | { readonly kind: "pending" }
  | {
      readonly kind: "final";
      readonly results: readonly DebitResult[];
      readonly transaction?: Hex;
      /** where they settled; a view of the chain at or past it that does not show them is of a reorganised chain */
      readonly blockNumber?: number;
    };

/** Sends debits: at most one prepared payload may be unresolved at a time. Each method may be repeated safely. */
export interface DebitSender {
  /** Judges items against the chain's current state and builds the payload; sends nothing. */
  prepare(items: readonly DebitItem[]): Promise<PreparedDebits>;
  /** Sends, or sends again, recorded payloads (the first and its replacements). */
  submit(payloads: readonly string[]): Promise<void>;
  /** Returns the outcome; `pending` whenever that is not certain. */
  outcome(items: readonly DebitItem[], payloads: readonly string[]): Promise<DebitOutcome>;
  /**
   * Builds a payload with a higher fee for the same debits, to be recorded before it is submitted; undefined when it
   * cannot help.
   */
  replace(payloads: readonly string[]): Promise<string | undefined>;
}
