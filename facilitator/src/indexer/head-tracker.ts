/**
 * Tracks the chain's head: as a node reports it, and as the blocks below confirm it. Only a confirmed head moves chain
 * time and confirmations. Also knows when the next block is due, and how far the applied blocks are behind.
 */
import { type ChainClock, createChainClock } from "turnpike/chain";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";
import { silentAfterMs } from "../chain/node-health";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { blockAt } from "./applied-blocks";
import type { AppliedTip } from "./applied-tip";
import { createLag, type Lag } from "./lag";
import { createLinkedHead, type LinkedHead } from "./linked-head";

export interface HeadTrackerOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly tip: AppliedTip;
  readonly monotonicMs: () => number;
  readonly untilBlock?: number | undefined;
}

/** How recently the chain was read, and how far the applied blocks are behind it. */
export interface HeadHealth {
  readonly silentSec: number;
  readonly isSilent: boolean;
  readonly lagSec: number;
  readonly headAgeSec: number;
}

/**
 * Around the time of the next block, polls EAGER times as often: from 1/EARLY of a block's time before it is due until
 * as long afterwards.
 */
const EAGER = 4;

const EARLY = 8;

export class HeadTracker {
  /** chain time, by the confirmed head */
  readonly clock: ChainClock;
  readonly #options: HeadTrackerOptions;
  readonly #linkedHead: LinkedHead;
  readonly #lag: Lag;
  #reported: ChainBlock | undefined;
  #confirmed: ChainBlock | undefined;
  #lastReadMs: number;
  /** earliest time at which the newest block may have existed */
  #newHeadMs: number;

  constructor(options: HeadTrackerOptions) {
    const { config, chain, monotonicMs } = options;
    this.#options = options;
    this.clock = createChainClock({ monotonicMs });
    this.#linkedHead = createLinkedHead(chain, config.confirmations);
    this.#lag = createLag({ monotonicMs, blockTimeMs: config.blockTimeMs });
    this.#lastReadMs = monotonicMs();
    this.#newHeadMs = this.#lastReadMs;
  }

  get reported(): ChainBlock | undefined {
    return this.#reported;
  }

  get confirmed(): ChainBlock | undefined {
    return this.#confirmed;
  }

  async refresh(): Promise<ChainBlock> {
    const { chain, config, monotonicMs } = this.#options;
    const beforeMs = this.#lastReadMs;
    const newest = await chain.head();
    this.#lastReadMs = monotonicMs();
    if (newest.hash !== this.#reported?.hash) this.#newHeadMs = Math.max(beforeMs, this.#lastReadMs - config.pollMs);
    this.#reported = newest;
    this.#lag.see(this.targetOf(newest));
    return newest;
  }

  /** Milliseconds without a read after which one is made beside the round. */
  get lookAfterMs(): number {
    return silentAfterMs(this.#options.config) / 3;
  }

  /** Reads the newest block when no round has for long: a round may take minutes, or wait for the database. */
  async look(): Promise<void> {
    if (this.#options.monotonicMs() - this.#lastReadMs >= this.lookAfterMs) await this.refresh();
  }

  /** Returns the highest block that is deep enough to be applied below this head. */
  targetOf({ number }: ChainBlock): number {
    const { config, untilBlock } = this.#options;
    return Math.min(number - (config.confirmations - 1), untilBlock ?? number);
  }

  /** Verifies that the blocks by height lead to this head. @returns the lowest of them */
  link(newest: ChainBlock): Promise<ChainBlock> {
    return this.#linkedHead.follow(newest);
  }

  /**
   * Sets the head once it is linked to the applied blocks. A head that a node merely reports must not move chain time
   * or confirmations.
   */
  async confirm(newest: ChainBlock, lowest: ChainBlock): Promise<void> {
    const { store, config } = this.#options;
    if (this.#confirmed?.hash === newest.hash) return;
    if ((await blockAt(store.db, config.chainId, lowest.number))?.hash !== lowest.hash) return;
    this.set(newest);
  }

  /**
   * Returns whether the chain is so short that no block is deep enough to be applied. Its newest block is the head
   * then, after the link check.
   */
  isTooShort(newest: ChainBlock): boolean {
    const { tip, config } = this.#options;
    const { startBlock } = config;
    return tip.number < startBlock && startBlock <= newest.number && this.targetOf(newest) < startBlock;
  }

  set(newest: ChainBlock): void {
    if (this.#confirmed?.hash === newest.hash) return;
    if (this.#confirmed && this.#confirmed.number > newest.number) this.clock.reset();
    this.#confirmed = newest;
    this.clock.observe({ number: newest.number, timestampSec: newest.timestampSec });
  }

  /** Returns the milliseconds until the node probably has its next block; negative when that is overdue. */
  untilNextBlockMs(): number {
    const { config, monotonicMs } = this.#options;
    return this.#newHeadMs + config.blockTimeMs - monotonicMs();
  }

  /**
   * Returns the pause until the next poll; shorter around the time when the next block is due, because payers wait for
   * it.
   */
  untilNextPollMs(): number {
    const { blockTimeMs, pollMs } = this.#options.config;
    const slackMs = blockTimeMs / EARLY;
    const eagerMs = pollMs / EAGER;
    const aheadMs = this.untilNextBlockMs() - slackMs;
    if (aheadMs > 0) return Math.min(pollMs, Math.max(aheadMs, eagerMs));
    return -aheadMs < 2 * slackMs + pollMs ? eagerMs : pollMs;
  }

  health(): HeadHealth {
    const { config, tip, monotonicMs } = this.#options;
    const silentMs = monotonicMs() - this.#lastReadMs;
    // The pause between two polls does not count as lag.
    const unseenSec = Math.max(0, Math.round((silentMs - Math.max(config.pollMs, config.blockTimeMs)) / 1_000));
    const newest = this.#reported;
    const waitingSec =
      newest === undefined ? 0 : this.#lag.sec(this.targetOf(newest), newest.timestampSec, tip.number, tip.block);
    return {
      silentSec: Math.round(silentMs / 1_000),
      isSilent: silentMs >= silentAfterMs(config),
      headAgeSec: newest === undefined ? 0 : Math.max(0, Math.round((monotonicMs() - this.#newHeadMs) / 1_000)),
      lagSec: Math.max(waitingSec, unseenSec),
    };
  }
}
