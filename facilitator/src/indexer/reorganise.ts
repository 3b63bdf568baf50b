import type { Tx } from "../db/open";
import type { EventFeed } from "../events/feed";
import type { BlockProjection, BlockReversal, RevertedBlock } from "../events/projection";
import { unmineTransactions } from "../relayer/transactions";

export interface Reverting {
  readonly chainId: number;
  readonly feed: EventFeed;
  readonly projections: readonly BlockProjection[];
}

export async function revertBlock(
  tx: Tx,
  { chainId, feed, projections }: Reverting,
  block: RevertedBlock,
): Promise<BlockReversal[]> {
  // First, because the rollups count rows that the projections revert.
  await feed.revertBlock(tx, block);
  const reversals: BlockReversal[] = [];
  for (const projection of [...projections].reverse()) reversals.push(await projection.revert(tx, block));
  await feed.append(
    tx,
    reversals.flatMap(({ events }) => events),
  );
  await unmineTransactions(tx, chainId, { from: block.number, to: block.number, hashes: [] });
  await tx.deleteFrom("blocks").where("chain_id", "=", chainId).where("number", "=", block.number).execute();
  return reversals;
}
