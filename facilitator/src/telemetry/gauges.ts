/** Registers the gauges: figures that are read when the metrics are requested. */
import { Gauge, type Registry } from "prom-client";
import { inTime, setter } from "./gauge-answers";
import { type BacklogGauge, watchBacklogs } from "./webhook-gauges";

interface CostGauge {
  readonly purpose: string;
  readonly transactions: number;
  readonly gas: number;
  readonly cents?: number;
}

/** Callbacks that are read when the metrics are requested. */
export interface Gauges {
  lanes(): readonly {
    readonly key: string;
    readonly balanceEth: number;
    readonly isWell: boolean;
    readonly isHeld: boolean;
    readonly oldestPendingSec: number;
    readonly inFlight: number;
    readonly queued: number;
  }[];
  nodes(): readonly { readonly position: number; readonly isWell: boolean; readonly behind?: number }[];
  indexerLagBlocks(): number;
  indexerLagSec(): number;
  headAgeSec(): number;
  isReorganisedTooDeeply(): boolean;
  isIndexing(): boolean;
  paymentQueue(): { readonly queued: number; readonly oldestQueuedSec: number };
  /** gas of the payer who costs most within an hour, as a share of MAX_GAS_PER_PAYER */
  highestPayerGas(): number;
  // Known only to the database. During an outage this metric is left out; all others are reported.
  renewalsDue(): Promise<number>;
  /** what the last `reconcile` found; undefined before the first */
  reconciled(): Promise<{ readonly ageSec: number; readonly differences: number } | undefined>;
  /** Costs are of the last 24 hours; cents only when NATIVE_PRICE is set. */
  costs(): Promise<readonly CostGauge[]>;
  webhooksPending(): Promise<number>;
  webhookBacklogs(): Promise<readonly BacklogGauge[]>;
}

/** Of the process: its chains share the database. */
export interface DatabaseGauges {
  isDatabaseWell(): boolean;
  /** connections of this process; undefined for the embedded database */
  databasePool(): { readonly busy: number; readonly idle: number; readonly waiting: number } | undefined;
}

export function registerGauges(gauges: Gauges, registers: Registry[]): void {
  watchRelayer(gauges, registers);
  watchNodes(gauges, registers);
  watchIndexer(gauges, registers);
  watchCosts(gauges, registers);
  watchQueues(gauges, registers);
  watchBacklogs(gauges.webhookBacklogs, registers);
  watchLeases(gauges, registers);
  watchReconciled(gauges, registers);
}

function watchReconciled(gauges: Gauges, registers: Registry[]): void {
  const reconciled = inTime(() => gauges.reconciled());
  const set = async (gauge: Gauge, figure: "ageSec" | "differences"): Promise<void> => {
    const found = await reconciled();
    if (found) gauge.set(found[figure]);
    else gauge.remove();
  };
  new Gauge({
    name: "turnpike_reconcile_age_seconds",
    help: "Seconds since reconcile last compared database and chain; absent before the first time.",
    registers,
    collect() {
      return set(this, "ageSec");
    },
  });
  new Gauge({
    name: "turnpike_reconcile_differences",
    help: "Differences that it found then.",
    registers,
    collect() {
      return set(this, "differences");
    },
  });
}

function watchRelayer(gauges: Gauges, registers: Registry[]): void {
  new Gauge({
    name: "turnpike_relayer_balance_eth",
    help: "Native balance of each relayer key, in whole units.",
    labelNames: ["key"],
    registers,
    collect() {
      for (const lane of gauges.lanes()) this.set({ key: lane.key }, lane.balanceEth);
    },
  });
  new Gauge({
    name: "turnpike_relayer_transactions",
    help: "Transactions of each relayer key that are not mined yet, by state.",
    labelNames: ["key", "state"],
    registers,
    collect() {
      for (const lane of gauges.lanes()) {
        this.set({ key: lane.key, state: "in_flight" }, lane.inFlight);
        this.set({ key: lane.key, state: "queued" }, lane.queued);
      }
    },
  });
  new Gauge({
    name: "turnpike_relayer_lane_well",
    help: "1 while the lane of a relayer key can send and its transactions are mined, else 0.",
    labelNames: ["key"],
    registers,
    collect() {
      for (const lane of gauges.lanes()) this.set({ key: lane.key }, Number(lane.isWell));
    },
  });
  new Gauge({
    name: "turnpike_relayer_oldest_pending_seconds",
    help: "Age of the oldest transaction of each relayer key that is not mined yet.",
    labelNames: ["key"],
    registers,
    collect() {
      for (const lane of gauges.lanes()) this.set({ key: lane.key }, lane.oldestPendingSec);
    },
  });
}

function watchNodes(gauges: Gauges, registers: Registry[]): void {
  new Gauge({
    name: "turnpike_rpc_node_well",
    help: "1 while a node of RPC_URLS answers for the right chain, else 0; by its place there, from 1.",
    labelNames: ["node"],
    registers,
    collect() {
      for (const { position, isWell } of gauges.nodes()) this.set({ node: position }, Number(isWell));
    },
  });
  new Gauge({
    name: "turnpike_rpc_node_behind_blocks",
    help: "Blocks of a node behind the furthest of the nodes; by its place in RPC_URLS, from 1.",
    labelNames: ["node"],
    registers,
    collect() {
      // The head of a failing node is unknown.
      this.reset();
      for (const { position, behind } of gauges.nodes()) if (behind !== undefined) this.set({ node: position }, behind);
    },
  });
}

function watchIndexer(gauges: Gauges, registers: Registry[]): void {
  new Gauge({
    name: "turnpike_indexer_lag_blocks",
    help: "Blocks between the chain's head and what has been read.",
    registers,
    collect() {
      this.set(gauges.indexerLagBlocks());
    },
  });
  new Gauge({
    name: "turnpike_indexer_lag_seconds",
    help: "Seconds that the read blocks are late, as /readyz judges them.",
    registers,
    collect() {
      this.set(gauges.indexerLagSec());
    },
  });
  new Gauge({
    name: "turnpike_chain_head_age_seconds",
    help: "Seconds since the chain has a new block, as this process sees it.",
    registers,
    collect() {
      this.set(gauges.headAgeSec());
    },
  });
  new Gauge({
    name: "turnpike_chain_reorganised_too_deeply",
    help: "1 while the chain was reorganised deeper than blocks can be reverted, else 0.",
    registers,
    collect() {
      this.set(Number(gauges.isReorganisedTooDeeply()));
    },
  });
}

/** Register it before the gauges that ask the database: their own statements would count as waiting. */
export function registerDatabaseGauges(gauges: DatabaseGauges, registers: Registry[]): void {
  new Gauge({
    name: "turnpike_database_well",
    help: "1 while the database can be read and written, else 0.",
    registers,
    collect() {
      this.set(Number(gauges.isDatabaseWell()));
    },
  });
  new Gauge({
    name: "turnpike_database_connections",
    help: "Connections of this process to PostgreSQL, by state: busy, idle.",
    labelNames: ["state"],
    registers,
    collect() {
      const pool = gauges.databasePool();
      if (!pool) return;
      this.set({ state: "busy" }, pool.busy);
      this.set({ state: "idle" }, pool.idle);
    },
  });
  new Gauge({
    name: "turnpike_database_waiting",
    help: "Statements of this process that wait for a connection to PostgreSQL.",
    registers,
    collect() {
      this.set(gauges.databasePool()?.waiting ?? 0);
    },
  });
}

function watchCosts(gauges: Gauges, registers: Registry[]): void {
  const costs = inTime(gauges.costs);
  const costGauge = (name: string, help: string, amountOf: (sum: CostGauge) => number | undefined): void => {
    new Gauge({
      name,
      help,
      labelNames: ["purpose"],
      registers,
      async collect() {
        // Purposes without a transaction for a day are removed; during an outage, all are.
        const sums = (await costs()) ?? [];
        this.reset();
        for (const sum of sums) {
          const value = amountOf(sum);
          if (value !== undefined) this.set({ purpose: sum.purpose }, value);
        }
      },
    });
  };
  costGauge(
    "turnpike_transactions_day",
    "This Facilitator's transactions that were mined within 24 hours, by purpose.",
    ({ transactions }) => transactions,
  );
  costGauge("turnpike_transactions_day_gas", "Gas that these transactions used, by purpose.", ({ gas }) => gas);
  costGauge(
    "turnpike_transactions_day_cents",
    "What these transactions cost in token cents, by purpose; absent without NATIVE_PRICE.",
    ({ cents }) => cents,
  );
}

function watchQueues(gauges: Gauges, registers: Registry[]): void {
  new Gauge({
    name: "turnpike_payer_gas_highest_ratio",
    help: "Gas of the payer who costs most within an hour, as a share of MAX_GAS_PER_PAYER.",
    registers,
    collect() {
      this.set(gauges.highestPayerGas());
    },
  });
  const setRenewals = setter(gauges.renewalsDue);
  const setWebhooks = setter(gauges.webhooksPending);
  new Gauge({
    name: "turnpike_payments_queued",
    help: "Accepted payments that are in no transaction yet.",
    registers,
    collect() {
      this.set(gauges.paymentQueue().queued);
    },
  });
  new Gauge({
    name: "turnpike_payments_oldest_queued_seconds",
    help: "Age of the oldest accepted payment that is in no transaction yet.",
    registers,
    collect() {
      this.set(gauges.paymentQueue().oldestQueuedSec);
    },
  });
  new Gauge({
    name: "turnpike_renewals_due",
    help: "Subscriptions whose renewal is due now.",
    registers,
    collect() {
      return setRenewals(this);
    },
  });
  new Gauge({
    name: "turnpike_webhooks_pending",
    help: "Deliveries in the outbox that are neither made nor given up.",
    registers,
    collect() {
      return setWebhooks(this);
    },
  });
}

function watchLeases(gauges: Gauges, registers: Registry[]): void {
  new Gauge({
    name: "turnpike_lease_held",
    help: "1 while this process has the lease, else 0: indexer, or lane by relayer key.",
    labelNames: ["lease", "key"],
    registers,
    collect() {
      this.set({ lease: "indexer", key: "" }, Number(gauges.isIndexing()));
      for (const { key, isHeld } of gauges.lanes()) this.set({ lease: "lane", key }, Number(isHeld));
    },
  });
}
