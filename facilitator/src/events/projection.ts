/** What features implement to follow the feed and the chain, which know none of them. */
import type { Hex } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";
import type { ChainFact } from "../chain/facts";
import type { Tx } from "../db/open";
import type { EventRow } from "../db/tables/events";
import type { EventDraft } from "./event";

/** The columns of an event that are known wherever it is published or reverted. */
export type CountedRow = Pick<EventRow, "type" | "object_id" | "provider" | "payer" | "payload" | "block_time">;

/** An event that has just been published. */
export interface PublishedRow extends CountedRow {
  readonly id: string;
}

/** Rows that follow the events. Each method runs in the transaction that changes the events, under the feed's lock. */
export interface EventProjection {
  /** Events were published, in this order. */
  appended?(tx: Tx, chainId: number, events: readonly PublishedRow[]): Promise<void>;
  /** Events are void: their block was reverted. */
  reverted?(tx: Tx, chainId: number, events: readonly CountedRow[]): Promise<void>;
  /**
   * Reverted events are valid again: their very block is back on the chain.
   * @returns events to publish because of it
   */
  revived?(tx: Tx, chainId: number, events: readonly EventRow[]): Promise<readonly EventDraft[]>;
}

/** Rows that follow the service's own transactions. */
export interface TransactionProjection {
  /** Transactions can no longer be reorganised away. Each is named once. */
  finalised(tx: Tx, chainId: number, ids: readonly string[]): Promise<void>;
}

export interface BlockInput {
  readonly chainId: number;
  readonly block: ChainBlock;
  readonly facts: readonly ChainFact[];
  /** what `findExpired` returned for a final block */
  readonly expired: readonly Hex[];
}

/** What a block does to a feature's rows. Pure: changes rows in memory and appends their events, in order. */
export interface BlockRules {
  apply(fact: ChainFact, events: EventDraft[]): void;
  expire?(id: Hex, events: EventDraft[]): void;
}

/** The rows of one block, from `load` to the commit. */
export interface BlockChange extends BlockRules {
  save(tx: Tx): Promise<void>;
  /** The transaction is committed: wakes whoever waits for these rows. */
  committed?(): void;
}

export interface BlockReversal {
  readonly events: readonly EventDraft[];
  /** The transaction is committed. */
  committed?(): void;
}

/**
 * Rows that follow the chain's blocks. The indexer loads, applies and saves a block for all projections in turn, in one
 * transaction under the feed's lock, and reverts it in the opposite order.
 */
export interface BlockProjection {
  /** Returns the facts that concern stored rows. The logs of others need no second source. */
  concerning(facts: readonly ChainFact[]): Promise<readonly ChainFact[]>;
  /** Returns whether a row waits for a log: then no block may be passed over. */
  isWaiting?(): Promise<boolean>;
  /** Returns the ids of what had to be in a block up to this final one, and is in none. */
  findExpired?(chain: ChainReader, finalBlock: number): Promise<readonly Hex[]>;
  load(tx: Tx, input: BlockInput): Promise<BlockChange>;
  /** Restores the rows as they were before the newest block. */
  revert(tx: Tx, block: RevertedBlock): Promise<BlockReversal>;
  /** The newest block is not, or no longer, the one that was committed here last. */
  tipMoved?(): void;
}

export interface RevertedBlock {
  readonly number: number;
  readonly hash: string;
  readonly timestamp: number;
}

/** Where an event stands, by its block. */
export const whereOf = ({ chainId, block }: BlockInput) => ({
  chainId,
  blockNumber: block.number,
  blockHash: block.hash,
  blockTime: block.timestampSec,
});

/** Rows of one table by key. Values are never edited, only replaced. */
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

  changes(): { readonly key: string; readonly before: T | undefined; readonly after: T | undefined }[] {
    return [...this.#before].map(([key, before]) => ({ key, before, after: this.#rows.get(key) }));
  }
}
