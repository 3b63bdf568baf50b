/**
 * Tracks how far the applied blocks are still on the chain, because a node's head may move back. While no node has a
 * block, nothing is confirmed by it. This ends when the chain grows past it or the block is reverted.
 */
import type { Hex } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";
import { type BlockRow, blockAt } from "./applied-blocks";

type Tip = Pick<BlockRow, "number" | "hash">;

export interface KeptBlocks {
  /** Compares the newest applied block with the chain. @throws Unavailable when the node stops answering */
  compare(newest: ChainBlock, tip: Tip | undefined): Promise<void>;
  /** Returns the highest applied block that is still on the chain; Infinity when all are. */
  to(): number;
  /** Returns the same when the chain has other blocks above it: it was reorganised there. */
  branchedAt(): number | undefined;
  /** Returns whether any node has the block. */
  isElsewhere(tip: Tip): Promise<boolean>;
}

export interface KeptBlocksOptions {
  readonly store: Store;
  readonly chain: ChainReader;
  readonly chainId: number;
  /** Called when the result of `to` changes. */
  readonly onChange: (to: number) => void;
}

/** Number of applied blocks in which the last common one is searched for; older blocks confirm nothing then. */
const SEARCHED = 1_000;

const NONE = -1;

export function createKeptBlocks({ store, chain, chainId, onChange }: KeptBlocksOptions): KeptBlocks {
  let keptTo = Number.POSITIVE_INFINITY;
  let branchedAt: number | undefined;
  /** the last comparison that found no difference */
  let same: { readonly newest: Hex; readonly tip: string } | undefined;

  function set(to: number, hasBranched = false): void {
    branchedAt = hasBranched ? to : undefined;
    if (to === keptTo) return;
    keptTo = to;
    onChange(to);
  }

  const isElsewhere = async (tip: Tip): Promise<boolean> =>
    (await chain.blockOfEach(tip.number)).some(({ hash }) => hash === tip.hash);

  /** Returns whether a head below the applied tip is on another branch, as far as the stored blocks show. */
  const isOtherBranch = async (newest: ChainBlock): Promise<boolean> => {
    const row = await blockAt(store.db, chainId, newest.number);
    return row !== undefined && row.hash !== newest.hash;
  };

  /** Binary search: blocks agree up to some height and differ above it. */
  async function lastCommon(newest: ChainBlock): Promise<{ readonly to: number; readonly hasBranched: boolean }> {
    const rows = await store.db
      .selectFrom("blocks")
      .select(["number", "hash"])
      .where("chain_id", "=", chainId)
      .where("number", "<=", newest.number)
      .orderBy("number", "desc")
      .limit(SEARCHED)
      .execute();
    let [low, high] = [0, rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const row = rows[middle] as Tip;
      const theirs = row.number === newest.number ? newest : await chain.block(row.number);
      if (theirs?.hash === row.hash) high = middle;
      else low = middle + 1;
    }
    return { to: rows[low]?.number ?? NONE, hasBranched: low > 0 };
  }

  return {
    async compare(newest, tip) {
      if (!tip) return set(Number.POSITIVE_INFINITY);
      if (same?.newest === newest.hash && same.tip === tip.hash) return;
      const isNext = newest.number === tip.number + 1 && newest.parentHash === tip.hash;
      const theirs = isNext || newest.hash === tip.hash ? "same" : await chain.block(tip.number);
      if (theirs === "same" || theirs?.hash === tip.hash) {
        same = { newest: newest.hash, tip: tip.hash };
        return set(Number.POSITIVE_INFINITY);
      }
      same = undefined;
      // A lagging node has no block at this height. A node with a different block contradicts the others; the indexer
      // resolves that.
      if (!theirs && !(await isOtherBranch(newest)) && (await isElsewhere(tip))) return set(Number.POSITIVE_INFINITY);
      const common = await lastCommon(newest).catch(() => ({ to: NONE, hasBranched: false }));
      set(common.to, common.hasBranched);
    },
    to: () => keptTo,
    branchedAt: () => branchedAt,
    isElsewhere,
  };
}
