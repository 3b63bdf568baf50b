/** Follows the process that indexes: its committed rows are the state of this process. */
import type { ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import type { AppliedTip } from "./applied-tip";
import type { BlockApplier } from "./block-applier";
import type { HeadTracker } from "./head-tracker";

export interface FollowerOptions {
  readonly config: FacilitatorConfig;
  readonly chain: ChainReader;
  readonly tip: AppliedTip;
  readonly heads: HeadTracker;
  readonly applier: BlockApplier;
}

export class Follower {
  readonly #options: FollowerOptions;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  async round(): Promise<void> {
    const { config, chain, tip, heads, applier } = this.#options;
    applier.expectStaged();
    const reported = await heads.refresh();
    tip.moved();
    const before = tip.number;
    await tip.read();
    if (tip.number !== before) tip.notifyFollowed();
    await tip.compare(reported);
    // The indexing process may not have reached the node's newest block, so the head is the one that belongs to its
    // rows.
    if (heads.isTooShort(reported)) {
      await heads.link(reported);
      heads.set(reported);
    }
    if (tip.number < config.startBlock) return;
    const newest = await chain.block(tip.number + config.confirmations - 1);
    if (newest) await heads.confirm(newest, await heads.link(newest));
  }
}
