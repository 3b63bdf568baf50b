import { centsOf, createCosts } from "../analytics/costs";
import { readReconciled } from "../db/reconciled";
import { countDue } from "../subscriptions/renewals/work-list";
import type { DatabaseGauges } from "../telemetry/gauges";
import type { Metrics } from "../telemetry/metrics";
import { countPending, oldestBacklogs } from "../webhooks/delivery-log";
import type { Core } from "./core";
import type { Database } from "./database";
import { isLaneWell } from "./readiness";

export const databaseGauges = ({ health, store }: Pick<Database, "health" | "store">): DatabaseGauges => ({
  isDatabaseWell: () => health.health().ok,
  databasePool: () => store.connections(),
});

export function watchCore(metrics: Metrics, { config, store, database, relayer, indexer, payments }: Core): void {
  const costs = createCosts(store.db, config.chainId, config.nativePrice);
  metrics.watch({
    lanes: () =>
      relayer.health().lanes.map((lane) => ({
        ...lane,
        balanceEth: Number(lane.balanceWei ?? 0n) / 1e18,
        isWell: isLaneWell(lane),
        isHeld: lane.status === "running",
      })),
    nodes: () => relayer.nodes.nodes().map((node) => ({ ...node, isWell: node.status === "well" })),
    ...databaseGauges({ health: database, store }),
    indexerLagBlocks: () => Math.max(0, (indexer.health().head ?? 0) - indexer.applied()),
    indexerLagSec: () => indexer.health().lagSec,
    headAgeSec: () => indexer.health().headAgeSec,
    isReorganisedTooDeeply: () => indexer.health().isTooDeep,
    isIndexing: () => indexer.health().isIndexing,
    paymentQueue: () => payments.health(),
    highestPayerGas: () => payments.highestPayerGas(),
    costs: async () =>
      (await costs.ofLastDay()).map(({ purpose, transactions, gas, wei }) => ({
        purpose,
        transactions,
        gas,
        ...(costs.nativePrice !== undefined && { cents: centsOf(wei, costs.nativePrice) }),
      })),
    reconciled: () => readReconciled(store.db, config.chainId),
    renewalsDue: () => countDue(store.db, config.chainId, indexer.clock.nowSec()),
    webhookBacklogs: () => oldestBacklogs(store.db, config.chainId),
    webhooksPending: () => countPending(store.db, config.chainId),
  });
}
