/** What the rules of a block are given, and how its events are named. Pure. */
import type { Hex } from "turnpike/protocol";
import type { ChainBlock } from "../chain/chain-reader";
import type { ChainFact } from "../chain/facts";

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
