/**
 * Reads one block: its header by height, the relevant logs and their facts, and receipts of this service's
 * transactions.
 */
import type { Hex } from "turnpike/protocol";
import type { ChainBlock, ChainLog, ChainReader, ChainReceipt, LogFilter } from "../chain/chain-reader";
import type { ChainFact, FactSources } from "../chain/facts";
import { readFacts } from "../chain/permit2-settlements";

export interface ReadBlock {
  readonly block: ChainBlock;
  readonly logs: readonly ChainLog[];
  readonly facts: readonly ChainFact[];
  /** receipts requested with the block; undefined inside when one could not be read */
  readonly receipts?: ReadonlyMap<Hex, Promise<ChainReceipt | undefined>>;
}

export interface BlockReading {
  readonly chain: ChainReader;
  readonly filter: LogFilter;
  readonly sources: FactSources;
  readonly isOurs: (transaction: Hex) => boolean;
}

/**
 * Reads a block. Requests everything in parallel when its header is already known. That header alone is not trusted:
 * the node has to return the same block by height.
 * @returns undefined when there is no such block yet
 */
export async function readBlock(
  { chain, filter, sources, isOurs }: BlockReading,
  number: number,
  reported: ChainBlock,
): Promise<ReadBlock | undefined> {
  const withLogs = async (block: ChainBlock, logs: readonly ChainLog[]) => ({
    block,
    logs,
    facts: await readFacts(chain, sources, logs),
  });
  const readLogs = async (block: ChainBlock) => withLogs(block, await chain.logsOfBlock(block.hash, filter));
  if (number !== reported.number) {
    const block = await chain.block(number);
    return block && readLogs(block);
  }
  const ours = reported.transactions.filter(isOurs);
  const receipts = new Map(ours.map((hash) => [hash, chain.receipt(hash).catch(() => undefined)]));
  const [block, logs] = await Promise.all([
    chain.block(number),
    chain.logsOfBlock(reported.hash, filter).catch(() => undefined),
  ]);
  if (block && block.hash === reported.hash && logs) return { ...(await withLogs(block, logs)), receipts };
  return block && readLogs(block);
}
