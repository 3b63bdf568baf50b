/** What a feature implements to follow the chain and the feed. Features know these interfaces; neither knows a feature. */
import type { Hex } from "turnpike/protocol";
import type { ChainBlock } from "../chain/chain-reader";
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

export interface BlockInput {
  readonly chainId: number;
  readonly block: ChainBlock;
  readonly facts: readonly ChainFact[];
  /** payments whose window ended before a final block and whose nonce is unused: the chain was asked */
  readonly expired: readonly Hex[];
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
