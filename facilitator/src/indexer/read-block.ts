/** Reads one block: its header by height, the logs that are of interest, and receipts of what was sent here. */
import type { Hex } from "turnpike/protocol";
import type { ChainBlock, ChainLog, ChainReader, ChainReceipt, LogFilter } from "../relayer";

export interface ReadBlock {
  readonly block: ChainBlock;
  readonly logs: readonly ChainLog[];
  /** those that were asked for with it; undefined inside when they could not be had */
  readonly receipts?: ReadonlyMap<Hex, Promise<ChainReceipt | undefined>>;
}

export interface BlockReading {
  readonly chain: ChainReader;
  readonly filter: LogFilter;
  /** whether a transaction was sent here */
  readonly isOurs: (transaction: Hex) => boolean;
}

/**
 * Of a block that is told already, everything is asked for together. What is told is never taken for the block: the node
 * has to name the same one by its height.
 * @returns undefined when there is no such block (yet)
 */
export async function readBlock(
  { chain, filter, isOurs }: BlockReading,
  number: number,
  told: ChainBlock,
): Promise<ReadBlock | undefined> {
  if (number !== told.number) {
    const block = await chain.block(number);
    return block && { block, logs: await chain.logsOfBlock(block.hash, filter) };
  }
  const ours = told.transactions.filter(isOurs);
  const receipts = new Map(ours.map((hash) => [hash, chain.receipt(hash).catch(() => undefined)]));
  const [block, logs] = await Promise.all([
    chain.block(number),
    chain.logsOfBlock(told.hash, filter).catch(() => undefined),
  ]);
  if (block && block.hash === told.hash && logs) return { block, logs, receipts };
  return block && { block, logs: await chain.logsOfBlock(block.hash, filter) };
}
