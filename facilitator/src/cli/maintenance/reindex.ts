/** Reads the whole chain into a database that contains none of it. */
import { sql } from "kysely";
import type { Logger } from "pino";
import { type Address, ConfigError } from "turnpike/protocol";
import { removeCosts } from "../../analytics/costs";
import { recountSums } from "../../analytics/event-sums";
import { recountFailedPeriods } from "../../analytics/failed-periods";
import { createEventFeed, createProjections } from "../../app/projections";
import type { ChainReader } from "../../chain/chain-reader";
import type { FacilitatorConfig } from "../../config";
import { bindChainContracts, type ChainContracts, rebindChainContracts } from "../../db/chain-contracts";
import { holderOf } from "../../db/leases";
import type { Store } from "../../db/open";
import { prunedBlock } from "../../events/retention";
import { startIndexer } from "../../indexer";
import { newestBlock } from "../../indexer/applied-blocks";
import { type Progress, readingBar } from "../../lib/progress";
import { UNMINED } from "../../payments/rows";
import { lostTransactions, reopenTransactions } from "../../relayer/transactions";

export interface Reindex {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly log: Logger;
  readonly progress: Progress;
  readonly untilBlock?: number;
}

/**
 * @returns the last block that was read.
 * @throws ConfigError when another process writes, or the database has data already
 */
export async function reindex({ isWiped, ...job }: Reindex & { readonly isWiped: boolean }): Promise<number> {
  const { store, config } = job;
  const holder = await holderOf(store, config.chainId, "indexer");
  if (holder) throw new ConfigError(`${holder} reads the chain into this database: stop every Facilitator on it first`);
  if (isWiped) {
    // First, while the events show what the transactions moved.
    await reopenLostTransactions(job);
    await wipeChainRows(store, config);
  } else if (await newestBlock(store.db, config.chainId)) {
    throw new ConfigError("the database has read the chain already: name an empty one, or reindex --wipe");
  }
  await bindChainContracts(store.db, config);
  return readChain(job);
}

/** A nonce that the chain has lost would keep every later transaction of its key waiting. */
async function reopenLostTransactions({ config: { chainId }, store, chain, log }: Reindex): Promise<void> {
  const keys = await store.db.selectFrom("lanes").select("key").where("chain_id", "=", chainId).execute();
  for (const { key } of keys) {
    const lost = await lostTransactions(store.db, { chainId, key }, await chain.nonce(key as Address));
    if (lost.length === 0) continue;
    const final = lost.filter(({ is_final }) => is_final);
    await store.transaction(async (tx) => {
      await removeCosts(
        tx,
        chainId,
        final.map(({ id }) => id),
      );
      await reopenTransactions(
        tx,
        lost.map(({ id }) => id),
      );
    });
    log.warn({ key, transactions: lost.length }, "the chain has lost transactions: they are sent again");
  }
}

export async function readChain({ config, store, chain, log, progress, untilBlock }: Reindex): Promise<number> {
  const reading = readingBar(progress, config.startBlock);
  const onStep = (): void => undefined;
  const indexer = await startIndexer({
    config: { ...config, roles: ["indexer"] },
    store,
    feed: createEventFeed(config.chainId),
    projections: createProjections({ store, chainId: config.chainId, log, onStep }),
    chain,
    log,
    onStep,
    ...(untilBlock !== undefined && { untilBlock }),
    onProgress: reading.update,
  });
  try {
    await indexer.catchUp();
    return indexer.applied();
  } finally {
    await indexer.stop();
    reading.end();
  }
}

const TABLES = [
  "plans",
  "operators",
  "subscriptions",
  "allowances",
  "debits",
  "renewal_due",
  "subscription_ends",
  "blocks",
  "undo",
  "rollup_standing",
  "rollup_plan_standing",
] as const;

/**
 * Removes everything that the chain decides from the database, to read it again. Data that only this database has
 * stays: accepted payments, sent transactions, providers, and the numbers and deliveries of events, which are matched
 * by id. Payments whose event retention has deleted stay as they are: they are older than any reorganisation, and their
 * event is not published again. Dunning restarts; nobody is charged twice for it.
 */
export async function wipeChainRows(store: Store, contracts: ChainContracts): Promise<void> {
  const { chainId } = contracts;
  const feed = createEventFeed(chainId);
  await store.transaction(async (tx) => {
    await feed.lock(tx);
    await feed.revertLogs(tx);
    await recountSums(tx, chainId);
    for (const table of TABLES) await tx.deleteFrom(table).where("chain_id", "=", chainId).execute();
    // Events without a log stay, and get their outcome when their subscriptions are read.
    await recountFailedPeriods(tx, chainId);
    await rebindChainContracts(tx, contracts);
    await tx.deleteFrom("cursors").where("chain_id", "=", chainId).where("name", "=", "indexer").execute();
    // Parked: nothing is sent for it until the chain has been read. Then its log settles it, or it expires.
    await tx
      .updateTable("payments")
      .set({
        ...UNMINED,
        state: "parked",
        is_reversed: false,
        // `settled_at_ms` stays: the time of first observation is not on the chain.
      })
      .where("chain_id", "=", chainId)
      .where((eb) =>
        eb.or([eb("state", "=", "settled"), eb.and([eb("state", "=", "failed"), eb("log_index", "is not", null)])]),
      )
      .where(hasEvent(chainId, await prunedBlock(tx, chainId)))
      .execute();
  });
}

/** Whether the event of a payment's outcome is kept. */
const hasEvent = (chainId: number, prunedThrough: number) => sql<boolean>`(block_number > ${prunedThrough}::bigint
  or exists (select from events e where e.chain_id = ${chainId}::bigint and e.object_id = payments.payment_id))`;
