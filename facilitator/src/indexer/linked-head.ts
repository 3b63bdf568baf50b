/** A node's newest block is believed when the blocks told by height lead to it, each naming the one below as its parent. */
import { Unavailable } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../relayer";

/**
 * @param depth blocks to follow, the newest included
 * @returns the lowest of them
 * @throws Unavailable when the node contradicts itself, also for a moment: while the chain is being reorganised
 */
export async function followDown(chain: ChainReader, newest: ChainBlock, depth: number): Promise<ChainBlock> {
  const lowest = Math.max(0, newest.number - depth + 1);
  const numbers = Array.from({ length: newest.number - lowest + 1 }, (_, index) => lowest + index);
  const blocks = await Promise.all(numbers.map((number) => chain.block(number)));
  let above = newest;
  for (const [index, block] of [...blocks.entries()].reverse()) {
    const wanted = index === blocks.length - 1 ? newest.hash : above.parentHash;
    if (block?.hash !== wanted) throw new Unavailable("a node's newest block does not stand on its others");
    above = block;
  }
  return above;
}
