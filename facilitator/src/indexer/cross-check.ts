/**
 * Compares logs with the receipts of their transactions: a node that is wrong, or lies, about one of the two proves
 * nothing. Reads only receipts that concern stored rows.
 */
import type { Hex } from "turnpike/protocol";
import type { ChainReader, ChainReceipt } from "../chain/chain-reader";
import { requireSameLogs, type Told } from "../chain/same-logs";
import type { BlockProjection } from "../events/projection";

/** Receipts that are read at once: a block may have hundreds. */
const AT_ONCE = 64;

export interface CrossCheckOptions {
  readonly chain: ChainReader;
  readonly projections: readonly BlockProjection[];
  /** what need not be looked for among the rows first */
  readonly isOurs: (transaction: Hex) => boolean;
}

/**
 * @returns the receipts that were compared
 * @throws Unavailable when they disagree, or a receipt is not there (yet)
 */
export async function crossCheck(
  { chain, projections, isOurs }: CrossCheckOptions,
  told: Told,
): Promise<ChainReceipt[]> {
  const ours = new Set(told.facts.map((fact) => fact.transaction).filter(isOurs));
  const others = told.facts.filter((fact) => !ours.has(fact.transaction));
  const [receipts, matter] = await Promise.all([
    Promise.all([...ours].map((hash) => requireSameLogs(chain, hash, told))),
    Promise.all(projections.map((projection) => projection.concerning(others))),
  ]);
  const hashes = [...new Set(matter.flat().map((fact) => fact.transaction))];
  for (let start = 0; start < hashes.length; start += AT_ONCE) {
    const some = hashes.slice(start, start + AT_ONCE);
    receipts.push(...(await Promise.all(some.map((hash) => requireSameLogs(chain, hash, told)))));
  }
  return receipts;
}
