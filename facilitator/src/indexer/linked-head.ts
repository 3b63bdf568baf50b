/**
 * Verifies a node's newest block: the blocks queried by height must lead to it, each naming the one below as its
 * parent.
 */
import { Unavailable } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";

export interface LinkedHead {
  /**
   * Follows the parents of the newest block down.
   * @returns the block `depth - 1` below it
   * @throws Unavailable when the node contradicts itself, even briefly during a reorganisation
   */
  follow(newest: ChainBlock): Promise<ChainBlock>;
}

/** Headers requested in parallel. */
const AT_ONCE = 32;

/** @param depth number of blocks to follow, including the newest */
export function createLinkedHead(chain: ChainReader, depth: number): LinkedHead {
  /** blocks below the last newest one, by height; an unchanged hash needs no second query */
  let known = new Map<number, ChainBlock>();
  const contradiction = (): Unavailable => new Unavailable("a node's newest block is not linked to its other blocks");

  return {
    async follow(newest) {
      if (depth === 1) return newest;
      const lowest = Math.max(0, newest.number - depth + 1);
      const isKnown = known.get(newest.number)?.hash === newest.hash;
      if (!isKnown && (await chain.block(newest.number))?.hash !== newest.hash) throw contradiction();
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
