/** Lists what is deleted when it is old. Nothing of it makes a payment unique, is owed or is the only evidence of it. */
import type { Logger } from "pino";
import { keepCosts } from "../analytics/costs";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { SharedClock } from "../db/shared-clock";
import { startUpkeep, type UpkeepTask } from "../db/upkeep";
import type { Worker } from "../lib/loop";
import { transactionsAwaited } from "../payments/ledger";
import { deleteOldTransactions } from "../relayer/retention";
import { deleteOldDeliveries } from "../webhooks/retention";

export interface AppUpkeepContext {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly wallClock: Pick<SharedClock, "nowMs">;
  readonly log: Logger;
}

const DAY_MS = 86_400_000;

export function startAppUpkeep({ config, store, wallClock, log }: AppUpkeepContext): Worker {
  const { chainId, webhookLogDays, retainTransactionsDays } = config;
  const before = (days: number): number => wallClock.nowMs() - days * DAY_MS;
  const deliveries: UpkeepTask = {
    name: "deliveries",
    tables: ["webhook_deliveries", "webhook_attempts"],
    run: () => deleteOldDeliveries(store, chainId, before(webhookLogDays)),
  };
  const transactions: UpkeepTask = {
    name: "transactions",
    tables: ["transactions", "transaction_hashes"],
    run: () =>
      deleteOldTransactions(
        { store, chainId, awaited: transactionsAwaited, onDelete: (tx, ids) => keepCosts(tx, chainId, ids) },
        before(retainTransactionsDays),
      ),
  };
  return startUpkeep({
    store,
    chainId,
    log,
    tasks: [deliveries, ...(retainTransactionsDays > 0 ? [transactions] : [])],
  });
}
