/** Interfaces through which features follow the feed and the chain, which depend on no feature. */
import type { Hex } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";
import type { ChainFact } from "../chain/facts";
import type { Tx } from "../db/open";
import type { EventRow } from "../db/tables/events";
import type { EventDraft } from "./event";

/** Columns of an event that are known both when it is published and when it is reverted. */
export type CountedRow = Pick<
  EventRow,
  "type" | "object_id" | "provider" | "payer" | "payload" | "block_number" | "block_time"
>;

/** An event that has just been published. */
export interface PublishedRow extends CountedRow {
  readonly id: string;
}

/** Rows derived from events. Each method runs in the transaction that changes the events, under the feed's lock. */
export interface EventProjection {
  /** Called after events were published, in this order. */
  appended?(tx: Tx, chainId: number, events: readonly PublishedRow[]): Promise<void>;
  /** Called after events were reverted with their block. */
  reverted?(tx: Tx, chainId: number, events: readonly CountedRow[]): Promise<void>;
  /**
   * Called after reverted events became valid again, because their own block is back on the chain.
   * @returns events to publish as a result
   */
  revived?(tx: Tx, chainId: number, events: readonly EventRow[]): Promise<readonly EventDraft[]>;
}

/** Rows derived from the service's own transactions. */
export interface TransactionProjection {
  /** Called once for each transaction that can no longer be reverted. */
  finalised(tx: Tx, chainId: number, ids: readonly string[]): Promise<void>;
}

export interface BlockInput {
  readonly chainId: number;
  readonly block: ChainBlock;
  readonly facts: readonly ChainFact[];
  /** result of `findExpired` for a final block */
  readonly expired: readonly Hex[];
}

/** Rules by which a block changes a feature's rows. Pure: changes rows in memory and appends their events, in order. */
export interface BlockRules {
  apply(fact: ChainFact, events: EventDraft[]): void;
  expire?(id: Hex, events: EventDraft[]): void;
}

/** The rows of one block, from `load` to the commit. */
export interface BlockChange extends BlockRules {
  save(tx: Tx): Promise<void>;
  /** Called after the commit: wakes callers that wait for these rows. */
  committed?(): void;
}

export interface BlockReversal {
  readonly events: readonly EventDraft[];
  committed?(): void;
}

/**
 * Rows derived from the chain's blocks. The indexer loads, applies and saves a block for each projection in turn, in
 * one transaction under the feed's lock. It reverts in the opposite order.
 */
export interface BlockProjection {
  /** Returns the facts that concern stored rows. The logs of other facts are not checked against receipts. */
  concerning(facts: readonly ChainFact[]): Promise<readonly ChainFact[]>;
  /** Returns whether a row waits for a log; no block may be skipped then. */
  isWaiting?(): Promise<boolean>;
  /** Returns the ids of rows whose log had to be in a block up to this final one, and is in none. */
  findExpired?(chain: ChainReader, finalBlock: number): Promise<readonly Hex[]>;
  load(tx: Tx, input: BlockInput): Promise<BlockChange>;
  /** Restores the rows as they were before the newest block. */
  revert(tx: Tx, block: RevertedBlock): Promise<BlockReversal>;
  /** Called when the newest block may no longer be the one that this process committed last. */
  tipMoved?(): void;
}

export interface RevertedBlock {
  readonly number: number;
  readonly hash: string;
  readonly timestamp: number;
}

/** Returns the position of an event, by its block. */
export const whereOf = ({ chainId, block }: BlockInput) => ({
  chainId,
  blockNumber: block.number,
  blockHash: block.hash,
  blockTime: block.timestampSec,
});

/** Rows of one table by key. Values are replaced, never mutated. */
export class RowSet<T extends object> {
  readonly #before = new Map<string, T | undefined>();
  readonly #rows = new Map<string, T>();

  load(key: string, row: T): void {
    this.#rows.set(key, row);
  }

  get(key: string): T | undefined {
    return this.#rows.get(key);
  }

  put(key: string, row: T): void {
    if (!this.#before.has(key)) this.#before.set(key, this.#rows.get(key));
    this.#rows.set(key, row);
  }

  delete(key: string): void {
    if (!this.#before.has(key)) this.#before.set(key, this.#rows.get(key));
    this.#rows.delete(key);
  }

  all(): T[] {
    return [...this.#rows.values()];
  }

  changes(): { readonly key: string; readonly before: T | undefined; readonly after: T | undefined }[] {
    return [...this.#before].map(([key, before]) => ({ key, before, after: this.#rows.get(key) }));
  }
}
