/** Reads the whole chain into a database that has nothing of it yet. */
import type { Logger } from "pino";
import { ConfigError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import { startIndexer } from "../indexer";
import { type Progress, readingBar } from "../progress";
import type { ChainReader } from "../relayer";
import { holderOf } from "../store/leases";
import type { Store } from "../store/open";
import { newestBlock } from "../store/tables/blocks";
import { wipeChainRows } from "./wipe";

export interface Reindex {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly log: Logger;
  readonly progress: Progress;
  /** where the reading stops; the newest block when absent */
  readonly untilBlock?: number;
}

/** @returns the last block that was read. @throws ConfigError when somebody else writes, or there is something already */
export async function reindex({ isWiped, ...job }: Reindex & { readonly isWiped: boolean }): Promise<number> {
  const { store, config } = job;
  const holder = await holderOf(store, config.chainId, "indexer");
  if (holder) throw new ConfigError(`${holder} reads the chain into this database: stop every Facilitator on it first`);
  if (isWiped) await wipeChainRows(store, config.chainId);
  else if (await newestBlock(store.db, config.chainId)) {
    throw new ConfigError("the database has read the chain already: name an empty one, or reindex --wipe");
  }
  return readChain(job);
}

/** @returns the last block that was read */
export async function readChain({ config, store, chain, log, progress, untilBlock }: Reindex): Promise<number> {
  const reading = readingBar(progress, config.startBlock);
  const indexer = await startIndexer({
    config: { ...config, roles: ["indexer"] },
    store,
    chain,
    log,
    onStep: () => undefined,
    ...(untilBlock !== undefined && { untilBlock }),
    onProgress: reading.tell,
  });
  try {
    await indexer.catchUp();
    return indexer.applied();
  } finally {
    await indexer.stop();
    reading.end();
  }
}
