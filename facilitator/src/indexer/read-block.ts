/** Reads one block: its header by height, the logs that are of interest and what they mean, and receipts of what was sent here. */
import type { Hex } from "turnpike/protocol";
import type { ChainBlock, ChainLog, ChainReader, ChainReceipt, LogFilter } from "../chain/chain-reader";
import { type ChainFact, type FactSources, factsOf } from "../chain/facts";

export interface ReadBlock {
  readonly block: ChainBlock;
  readonly logs: readonly ChainLog[];
  readonly facts: readonly ChainFact[];
  /** those that were asked for with it; undefined inside when they could not be had */
  readonly receipts?: ReadonlyMap<Hex, Promise<ChainReceipt | undefined>>;
}

export interface BlockReading {
  readonly chain: ChainReader;
  readonly filter: LogFilter;
  readonly sources: FactSources;
  /** whether a transaction was sent here */
  readonly isOurs: (transaction: Hex) => boolean;
}

/**
 * Of a block that is told already, everything is asked for together. What is told is never taken for the block: the node
 * has to name the same one by its height.
 * @returns undefined when there is no such block (yet)
 */
export async function readBlock(
  { chain, filter, sources, isOurs }: BlockReading,
  number: number,
  told: ChainBlock,
): Promise<ReadBlock | undefined> {
  const withLogs = (block: ChainBlock, logs: readonly ChainLog[]) => ({ block, logs, facts: factsOf(sources, logs) });
  const readLogs = async (block: ChainBlock) => withLogs(block, await chain.logsOfBlock(block.hash, filter));
  if (number !== told.number) {
    const block = await chain.block(number);
    return block && readLogs(block);
  }
  const ours = told.transactions.filter(isOurs);
  const receipts = new Map(ours.map((hash) => [hash, chain.receipt(hash).catch(() => undefined)]));
  const [block, logs] = await Promise.all([
    chain.block(number),
    chain.logsOfBlock(told.hash, filter).catch(() => undefined),
  ]);
  if (block && block.hash === told.hash && logs) return { ...withLogs(block, logs), receipts };
  return block && readLogs(block);
}
