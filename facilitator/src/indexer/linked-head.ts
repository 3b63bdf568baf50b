/** A node's newest block is believed when the blocks told by height lead to it, each naming the one below as its parent. */
import { Unavailable } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";

export interface LinkedHead {
  /**
   * Follows the newest block down, block by block.
   * @returns the one `depth - 1` below it
   * @throws Unavailable when the node contradicts itself, also for a moment: while the chain is being reorganised
   */
  follow(newest: ChainBlock): Promise<ChainBlock>;
}

/** Headers asked for at once. */
const AT_ONCE = 32;

/** @param depth blocks to follow, the newest included */
export function createLinkedHead(chain: ChainReader, depth: number): LinkedHead {
  /** what the last newest block stood on, by height: the same hash needs no second look */
  let known = new Map<number, ChainBlock>();
  const contradiction = (): Unavailable => new Unavailable("a node's newest block does not stand on its others");

  return {
    async follow(newest) {
      if (depth === 1) return newest;
      const lowest = Math.max(0, newest.number - depth + 1);
      const isTold = known.get(newest.number)?.hash === newest.hash;
      if (!isTold && (await chain.block(newest.number))?.hash !== newest.hash) throw contradiction();
      const linked = new Map([[newest.number, newest]]);
      let block = newest;
      while (block.number > lowest) {
        const below = known.get(block.number - 1);
        if (below?.hash === block.parentHash) {
          linked.set(below.number, below);
          block = below;
          continue;
        }
        const from = Math.max(lowest, block.number - AT_ONCE);
        const numbers = Array.from({ length: block.number - from }, (_, index) => from + index);
        const blocks = await Promise.all(numbers.map((number) => chain.block(number)));
        for (const next of blocks.reverse()) {
          if (next?.hash !== block.parentHash) throw contradiction();
          linked.set(next.number, next);
          block = next;
        }
      }
      known = linked;
      return block;
    },
  };
}
