import { type Hex, Unavailable } from "turnpike/protocol";
import type { ChainBlock, ChainLog, ChainReader, ChainReceipt } from "./chain-reader";
import type { ChainFact } from "./facts";

/** A block with its logs as a node returned them. */
export interface BlockLogs {
  readonly block: ChainBlock;
  readonly logs: readonly ChainLog[];
  readonly facts: readonly ChainFact[];
  readonly receipts?: ReadonlyMap<Hex, Promise<ChainReceipt | undefined>> | undefined;
}

export async function requireSameLogs(
  chain: ChainReader,
  hash: Hex,
  { block, logs, receipts }: Pick<BlockLogs, "block" | "logs" | "receipts">,
): Promise<ChainReceipt> {
  const receipt = (await receipts?.get(hash)) ?? (await chain.receipt(hash));
  const inReceipt = new Map(receipt?.logs.map((log) => [log.logIndex, log]));
  const isSame =
    receipt?.success === true &&
    receipt.blockHash === block.hash &&
    logs.every((log) => log.transaction !== hash || isEqual(log, inReceipt.get(log.logIndex)));
  if (!isSame) throw new Unavailable("a node's logs and receipts do not agree", { retryAfterSec: 2 });
  return receipt;
}

function isEqual(a: ChainLog, b: ChainLog | undefined): boolean {
  return (
    b !== undefined &&
    a.address === b.address &&
    a.data === b.data &&
    a.topics.length === b.topics.length &&
    a.topics.every((topic, index) => topic === b.topics[index])
  );
}
