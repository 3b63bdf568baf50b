/** Searches logs of many blocks, also at nodes that limit the range of a query. */
import { isTurnpikeError, Unavailable } from "turnpike/protocol";
import type { ChainLog, ChainReader, LogFilter } from "./chain-reader";

/** Maximum blocks in one query; nodes limit it. */
const SPAN = 5_000;

/** Yields the logs of a range of blocks, newest first. @throws Unavailable when the chain cannot be read */
export async function* newestLogs(
  chain: Pick<ChainReader, "logsBetween">,
  { fromBlock, toBlock }: { readonly fromBlock: number; readonly toBlock: number },
  filter: LogFilter,
): AsyncGenerator<ChainLog> {
  if (fromBlock > toBlock) return;
  const all = await chain.logsBetween(fromBlock, toBlock, filter).catch((error: unknown) => {
    if (isTurnpikeError(error)) throw error;
    // The node rejected the range as too wide.
    return undefined;
  });
  if (all) {
    yield* all.reverse();
    return;
  }
  for (let to = toBlock; to >= fromBlock; to -= SPAN) {
    const part = chain.logsBetween(Math.max(fromBlock, to - SPAN + 1), to, filter);
    const found = await part.catch((cause: unknown) => {
      throw isTurnpikeError(cause) ? cause : new Unavailable("a node rejects log queries for some blocks", { cause });
    });
    yield* found.reverse();
  }
}
