/**
 * Compares logs with the receipts of their transactions. A node that is wrong about one of the two, or lies, proves
 * nothing. Reads only receipts that concern stored rows.
 */
import type { Hex } from "turnpike/protocol";
import type { ChainReader, ChainReceipt } from "../chain/chain-reader";
import { type BlockLogs, requireSameLogs } from "../chain/same-logs";
import type { BlockProjection } from "../events/projection";

/** Receipts that are read in parallel: a block may have hundreds. */
const AT_ONCE = 64;

export interface CrossCheckOptions {
  readonly chain: ChainReader;
  readonly projections: readonly BlockProjection[];
  /** returns whether this service sent the transaction; then no row has to be searched for */
  readonly isOurs: (transaction: Hex) => boolean;
}

/**
 * Compares a block's logs with receipts.
 * @returns the compared receipts
 * @throws Unavailable when they disagree, or a receipt is not there yet
 */
export async function crossCheck(
  { chain, projections, isOurs }: CrossCheckOptions,
  read: BlockLogs,
): Promise<ChainReceipt[]> {
  const ours = new Set(read.facts.map((fact) => fact.transaction).filter(isOurs));
  const others = read.facts.filter((fact) => !ours.has(fact.transaction));
  const [receipts, matter] = await Promise.all([
    Promise.all([...ours].map((hash) => requireSameLogs(chain, hash, read))),
    Promise.all(projections.map((projection) => projection.concerning(others))),
  ]);
  const hashes = [...new Set(matter.flat().map((fact) => fact.transaction))];
  for (let start = 0; start < hashes.length; start += AT_ONCE) {
    const some = hashes.slice(start, start + AT_ONCE);
    receipts.push(...(await Promise.all(some.map((hash) => requireSameLogs(chain, hash, read)))));
  }
  return receipts;
}
