/**
 * Tracks the newest applied block as this process knows it, and how far the applied blocks are still on the chain.
 * Other processes may have written since: the rows decide.
 */
import type { Logger } from "pino";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";
import type { BlockProjection } from "../events/projection";
import { createNotifier } from "../lib/notifier";
import { type BlockRow, highestBlock, newestBlock } from "./applied-blocks";
import { createKeptBlocks, type KeptBlocks } from "./kept-blocks";

export interface AppliedTipOptions {
  readonly store: Store;
  readonly chain: ChainReader;
  readonly chainId: number;
  readonly startBlock: number;
  readonly projections: readonly BlockProjection[];
  readonly log: Logger;
  readonly monotonicMs: () => number;
  /** how many blocks below the highest one ever written can be reverted */
  readonly undoDepth: number;
}

/** Maximum pause between two checks of a waiting caller. */
const WAIT_MS = 500;

export class AppliedTip {
  /** which applied blocks are still on the chain */
  readonly kept: KeptBlocks;
  readonly #options: AppliedTipOptions;
  /** notifies in this process only; the others poll */
  readonly #followed = createNotifier();
  #block: BlockRow | undefined;
  #isTooDeep = false;

  constructor(options: AppliedTipOptions, newest: BlockRow | undefined) {
    this.#options = options;
    this.#block = newest;
    const { store, chain, chainId } = options;
    this.kept = createKeptBlocks({ store, chain, chainId, onChange: (to) => this.#keptChanged(to) });
  }

  get block(): BlockRow | undefined {
    return this.#block;
  }

  /** its number; the one before the first block to index when none is applied */
  get number(): number {
    return this.#block?.number ?? this.#options.startBlock - 1;
  }

  /** whether the chain was reorganised below the blocks that can be reverted */
  get isTooDeep(): boolean {
    return this.#isTooDeep;
  }

  /** Compares the applied blocks with the chain. @throws Unavailable when the node stops answering */
  async compare(newest: ChainBlock): Promise<void> {
    const { store, chainId, undoDepth } = this.#options;
    await this.kept.compare(newest, this.#block);
    const branchedAt = this.kept.branchedAt();
    if (branchedAt === undefined) this.#isTooDeep = false;
    else this.#isTooDeep = branchedAt < ((await highestBlock(store.db, chainId)) ?? 0) - undoDepth;
  }

  /** Moves the tip to a block that this process has just written. */
  set({ number, hash, timestampSec }: ChainBlock): void {
    this.#block = { number, hash, timestamp: timestampSec };
  }

  /** Reads the tip from the rows. */
  async read(): Promise<BlockRow | undefined> {
    const newest = await newestBlock(this.#options.store.db, this.#options.chainId);
    this.#block = newest;
    return newest;
  }

  /** Notifies the projections that another block than this process's last one may be the newest. */
  moved(): void {
    for (const projection of this.#options.projections) projection.tipMoved?.();
  }

  /** Notifies the callers of `waitFor` that another process has applied blocks. */
  notifyFollowed(): void {
    this.#followed.notify("applied");
  }

  /**
   * Waits until the block is applied.
   * @returns whether it is applied and still on the chain, at the latest after the timeout
   */
  async waitFor(blockNumber: number, timeoutMs: number): Promise<boolean> {
    const { store, monotonicMs } = this.#options;
    const untilMs = monotonicMs() + timeoutMs;
    const isThere = () => this.number >= blockNumber && blockNumber <= this.kept.to();
    while (!isThere() && monotonicMs() < untilMs) {
      await Promise.race([
        store.notifier.wait("block", Math.max(1, Math.min(WAIT_MS, untilMs - monotonicMs()))),
        this.#followed.wait("applied", Math.max(1, Math.min(WAIT_MS, untilMs - monotonicMs()))),
      ]);
    }
    return isThere();
  }

  close(): void {
    this.#followed.close();
  }

  #keptChanged(to: number): void {
    const { log, store } = this.#options;
    if (to === Number.POSITIVE_INFINITY) log.info({ applied: this.number }, "every applied block is on the chain");
    else
      log.warn({ applied: this.number, keptTo: to }, "the chain's head moved back: later payments are not confirmed");
    // Requests that wait for a confirmation read their rows again.
    store.notifier.notify("block");
    this.#followed.notify("applied");
  }
}
