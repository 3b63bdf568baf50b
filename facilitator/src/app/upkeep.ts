/** Lists what is deleted when it is old. Nothing of it makes a payment unique, is owed or is the only evidence of it. */
import type { Logger } from "pino";
import { keepCosts } from "../analytics/costs";
import { keepEventSums } from "../analytics/event-sums";
import type { FacilitatorConfig } from "../config";
import { Archive } from "../db/archive";
import type { Store, Tx } from "../db/open";
import type { SharedClock } from "../db/shared-clock";
import { startUpkeep, type UpkeepTask } from "../db/upkeep";
import { deleteOldEvents, type EventRetention, type OldEvent } from "../events/retention";
import { newestBlock } from "../indexer/applied-blocks";
import type { Worker } from "../lib/loop";
import { transactionsAwaited } from "../payments/ledger";
import { PAYMENT_EVENTS, REFUND_EVENTS } from "../payments/transfer-events";
import { deleteOldTransactions, knownHashes } from "../relayer/retention";
import type { Metrics } from "../telemetry/metrics";
import { deleteOldDeliveries, eventsDelivered } from "../webhooks/retention";

export interface AppUpkeepContext {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly wallClock: Pick<SharedClock, "nowMs">;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "upkeepWaits">;
}

const DAY_MS = 86_400_000;

export function startAppUpkeep({ log, metrics, ...context }: AppUpkeepContext): Worker {
  const { store, config } = context;
  /** The labels that a task has now: another reason replaces them. */
  const shown = new Map<string, { readonly task: string; readonly reason: string }>();
  return startUpkeep({
    store,
    chainId: config.chainId,
    log,
    tasks: upkeepTasks(context),
    onRound(task, wait) {
      const before = shown.get(task);
      if (before) metrics.upkeepWaits.remove(before);
      shown.delete(task);
      if (!wait) return;
      const labels = { task, reason: wait.reason };
      metrics.upkeepWaits.set(labels, wait.sec);
      shown.set(task, labels);
    },
  });
}

type TasksContext = Omit<AppUpkeepContext, "log" | "metrics">;

export function upkeepTasks({ config, store, wallClock }: TasksContext): readonly UpkeepTask[] {
  const { chainId, webhookLogDays, retainTransactionsDays, retainEventsDays } = config;
  const newest = () => newestBlock(store.db, chainId);
  /** Old by both clocks, the database's and the chain's: one that runs ahead makes nothing old. */
  const before = (days: number, tip: Awaited<ReturnType<typeof newest>>): number =>
    Math.min(wallClock.nowMs(), (tip?.timestamp ?? 0) * 1_000) - days * DAY_MS;
  const deliveries: UpkeepTask = {
    name: "deliveries",
    tables: ["webhook_deliveries", "webhook_attempts"],
    run: async () => deleteOldDeliveries(store, chainId, before(webhookLogDays, await newest())),
  };
  const transactions: UpkeepTask = {
    name: "transactions",
    tables: ["transactions", "transaction_hashes"],
    run: async () =>
      deleteOldTransactions(
        { store, chainId, awaited: transactionsAwaited, onDelete: (tx, ids) => keepCosts(tx, chainId, ids) },
        before(retainTransactionsDays, await newest()),
      ),
  };
  const events: UpkeepTask = {
    name: "events",
    tables: ["events"],
    async run() {
      const tip = await newest();
      const finalBlock = (tip?.number ?? 0) - Math.max(config.finalityDepth, MIN_DEPTH);
      const beforeSec = Math.floor(before(retainEventsDays, tip) / 1_000);
      return deleteOldEvents(eventRetention({ config, store, wallClock }), { beforeSec, finalBlock });
    },
  };
  return [deliveries, ...(retainTransactionsDays > 0 ? [transactions] : []), ...(retainEventsDays > 0 ? [events] : [])];
}

/** The indexer can revert this many blocks, however small FINALITY_DEPTH is. */
const MIN_DEPTH = 128;

/** A payment that has settled for good gets no further event. Its row says what the event said. */
export function eventRetention({
  config: { chainId, archiveDir: dir },
  store,
  wallClock,
}: Pick<AppUpkeepContext, "store" | "wallClock"> & {
  readonly config: Pick<FacilitatorConfig, "chainId" | "archiveDir">;
}): EventRetention {
  return {
    store,
    chainId,
    types: [PAYMENT_EVENTS.settled, REFUND_EVENTS.settled],
    awaited: (tx, old) => eventsAwaited(tx, chainId, old),
    onDelete: (tx, old) => keepEventSums(tx, chainId, old),
    ...(dir !== undefined && { archive: new Archive({ dir, db: store.db, chainId, nowMs: wallClock.nowMs }) }),
  };
}

/** Deliveries need their events, and the costs of a transaction are divided by the payments that its events name. */
async function eventsAwaited(tx: Tx, chainId: number, events: readonly OldEvent[]): Promise<ReadonlySet<string>> {
  if (events.length === 0) return new Set();
  const delivered = await eventsDelivered(tx, chainId, events);
  const hashes = new Set(
    await knownHashes(
      tx,
      events.flatMap(({ transaction }) => transaction ?? []),
    ),
  );
  const counted = events.flatMap(({ id, transaction }) => (transaction && hashes.has(transaction) ? [id] : []));
  return new Set([...delivered, ...counted]);
}
