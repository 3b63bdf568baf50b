/** Reverts applied blocks that the chain has lost, after the node's blocks agree about the reorganisation. */
import type { Logger } from "pino";
import { TurnpikeError, Unavailable } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";
import type { Metrics } from "../telemetry/metrics";
import { type BlockRow, blockAt } from "./applied-blocks";
import type { AppliedTip } from "./applied-tip";
import type { BlockWriter } from "./block-writer";

export type ReorganisationMetrics = Pick<Metrics, "reorganisations" | "reorganisedBlocks">;

export interface ForkResolverOptions {
  readonly store: Store;
  readonly chain: ChainReader;
  readonly chainId: number;
  readonly tip: AppliedTip;
  readonly writer: BlockWriter;
  readonly log: Logger;
  readonly metrics?: ReorganisationMetrics | undefined;
  /** whether the chain has a single node, which no other can be ahead of */
  readonly isLocal: boolean;
}

export const TOO_DEEP_REMEDY =
  "deeper than blocks can be reverted: compare the nodes with an explorer, then stop every process and run `reindex --wipe`";

const notLinked = (): Unavailable => new Unavailable("a node's blocks are not linked to each other");

export class ForkResolver {
  readonly #options: ForkResolverOptions;
  #isTooDeep = false;
  #reverted = 0;

  constructor(options: ForkResolverOptions) {
    this.#options = options;
  }

  /** whether the chain was reorganised deeper than blocks can be reverted */
  get isTooDeep(): boolean {
    return this.#isTooDeep;
  }

  /** Returns whether a block directly follows the last applied one, as most do; no fork has to be searched for then. */
  isNext({ number, parentHash }: ChainBlock): boolean {
    const ours = this.#options.tip.block;
    return !this.#isTooDeep && ours !== undefined && number === ours.number + 1 && parentHash === ours.hash;
  }

  /** Reverts blocks until the newest applied one is on the node's chain. */
  async resolve(newest: ChainBlock): Promise<void> {
    const before = this.#reverted;
    try {
      await this.#resolve(newest);
    } finally {
      if (this.#reverted > before) this.#options.metrics?.reorganisations.inc();
    }
  }

  async #resolve(newest: ChainBlock): Promise<void> {
    const { chain, tip } = this.#options;
    for (;;) {
      const ours = await tip.read();
      if (!ours) return;
      if (ours.number > newest.number) {
        // A node that is only behind will catch up.
        if (!(await this.#isLost(ours, newest))) return;
        await this.#revert(ours.hash);
        continue;
      }
      const isKept = ours.number === newest.number && ours.hash === newest.hash;
      const theirs = isKept ? newest : await chain.block(ours.number);
      if (!theirs) return;
      if (theirs.hash === ours.hash) {
        this.#isTooDeep = false;
        return;
      }
      // A payment is reverted only when the node's blocks agree about the reorganisation.
      const next = ours.number === newest.number ? newest : await chain.block(ours.number + 1);
      const isLinked = next && (next.number === ours.number ? next.hash : next.parentHash) === theirs.hash;
      if (!isLinked) throw notLinked();
      await this.#revert(ours.hash);
    }
  }

  /**
   * Returns whether the chain ends below an applied block and has lost it. The proof is another block at the end's
   * height. On a local chain no other node can be ahead, so the shorter chain is enough.
   */
  async #isLost(ours: BlockRow, newest: ChainBlock): Promise<boolean> {
    const { store, chain, chainId, tip, isLocal } = this.#options;
    const [there, below] = await Promise.all([
      chain.block(ours.number),
      newest.number > 0 ? chain.block(newest.number - 1) : undefined,
    ]);
    if (there) return false;
    const known = await blockAt(store.db, chainId, newest.number);
    const hasBranched = known !== undefined && known.hash !== newest.hash;
    if (!hasBranched && !isLocal) return false;
    if (newest.number > 0 && below?.hash !== newest.parentHash) throw notLinked();
    return !(await tip.kept.isElsewhere(ours));
  }

  /** @param expected hash of the block to revert: another process may have reverted it already */
  async #revert(expected: string): Promise<void> {
    const { store, tip, writer, log, metrics } = this.#options;
    tip.moved();
    const outcome = await writer.revertNewest(expected);
    if (outcome.kind === "too-deep") {
      this.#isTooDeep = true;
      throw new TurnpikeError("Internal", `the chain was reorganised ${TOO_DEEP_REMEDY}`);
    }
    await tip.read();
    if (outcome.kind === "other") return;
    const events = outcome.reversals.reduce((sum, reversal) => sum + reversal.events.length, 0);
    this.#reverted += 1;
    metrics?.reorganisedBlocks.inc();
    log.warn({ hash: expected, events }, "a block was reorganised away");
    for (const reversal of outcome.reversals) reversal.committed?.();
    for (const topic of ["events", "lane", "block"] as const) store.notifier.notify(topic);
  }
}
