/**
 * Takes everything out of the database that the chain decides, to be read again. What only this database knows stays:
 * accepted payments, sent transactions, providers, and the numbers and deliveries of events, which are found again under
 * their ids. Dunning begins afresh; nobody is charged twice for it.
 */
import type { Store } from "../store/open";
import { lockFeed, recountSums, revertChainEvents } from "../store/tables/events";
import { recountFailedPeriods } from "../store/tables/failed-periods";
import { UNMINED } from "../store/tables/payments";

const TABLES = [
  "plans",
  "operators",
  "subscriptions",
  "allowances",
  "debits",
  "renewal_due",
  "blocks",
  "undo",
  "rollup_standing",
  "rollup_plan_standing",
] as const;

export async function wipeChainRows(store: Store, chainId: number): Promise<void> {
  await store.transaction(async (tx) => {
    await lockFeed(tx, chainId);
    await revertChainEvents(tx, chainId);
    await recountSums(tx, chainId);
    for (const table of TABLES) await tx.deleteFrom(table).where("chain_id", "=", chainId).execute();
    // Of events that no log stands behind: they stay, and get their outcome when their subscriptions are read.
    await recountFailedPeriods(tx, chainId);
    await tx.deleteFrom("cursors").where("chain_id", "=", chainId).where("name", "=", "indexer").execute();
    // Parked: nothing is sent for it until the chain has been read; then its log settles it, or its time ends it.
    await tx
      .updateTable("payments")
      .set({
        ...UNMINED,
        state: "parked",
        is_reversed: false,
        // `settled_at_ms` stays: when it was seen first stands on no chain.
      })
      .where("chain_id", "=", chainId)
      .where((eb) =>
        eb.or([eb("state", "=", "settled"), eb.and([eb("state", "=", "failed"), eb("log_index", "is not", null)])]),
      )
      .execute();
  });
}
