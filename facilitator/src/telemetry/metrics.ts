/** Defines the metrics. One registry per service, so that several services can run in one process. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

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
    /** whether it can send, and its transactions are mined */
    readonly isWell: boolean;
    readonly oldestPendingSec: number;
    readonly inFlight: number;
    readonly queued: number;
  }[];
  nodes(): readonly { readonly position: number; readonly isWell: boolean; readonly behind?: number }[];
  isDatabaseWell(): boolean;
  indexerLagBlocks(): number;
  indexerLagSec(): number;
  // Known only to the database. During an outage this metric is left out; all others are reported.
  renewalsDue(): Promise<number>;
  /** of the last 24 hours; cents only when NATIVE_PRICE is set */
  costs(): Promise<readonly CostGauge[]>;
  webhooksPending(): Promise<number>;
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Sets a gauge to the result; removes it when there is none. */
async function known(gauge: Gauge, ask: () => Promise<number>): Promise<void> {
  const value = await ask().catch(() => undefined);
  if (value === undefined) gauge.remove();
  else gauge.set(value);
}

export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: "turnpike_" });
  return {
    ...createCounters(registers),
    contentType: registry.contentType,
    text: () => registry.metrics(),
    /** Registers the gauges, once, when the services behind them run. */
    watch(gauges: Gauges): void {
      watchRelayer(gauges, registers);
      watchNodes(gauges, registers);
      watchIndexer(gauges, registers);
      watchDatabase(gauges, registers);
      watchCosts(gauges, registers);
      watchQueues(gauges, registers);
    },
    close: () => registry.clear(),
  };
}

function createCounters(registers: Registry[]) {
  return {
    requests: new Counter({
      name: "turnpike_http_requests_total",
      help: "HTTP requests by route, method and status.",
      labelNames: ["route", "method", "status"] as const,
      registers,
    }),
    requestSeconds: new Histogram({
      name: "turnpike_http_request_seconds",
      help: "Time to answer, by route.",
      labelNames: ["route"] as const,
      buckets: [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30],
      registers,
    }),
    renewals: new Counter({
      name: "turnpike_renewals_total",
      help: "Renewal attempts by outcome: renewed, early, unsettled, or the reason of the failure.",
      labelNames: ["outcome"] as const,
      registers,
    }),
    webhooks: new Counter({
      name: "turnpike_webhook_attempts_total",
      help: "Webhook attempts by outcome: delivered, retry, exhausted, gone.",
      labelNames: ["outcome"] as const,
      registers,
    }),
    debits: new Counter({
      name: "turnpike_debits_total",
      help: "Items of POST /debits by answer: settled, failed, pending.",
      labelNames: ["status"] as const,
      registers,
    }),
  };
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
}

function watchDatabase(gauges: Gauges, registers: Registry[]): void {
  new Gauge({
    name: "turnpike_database_well",
    help: "1 while the database can be read and written, else 0.",
    registers,
    collect() {
      this.set(Number(gauges.isDatabaseWell()));
    },
  });
}

function watchCosts(gauges: Gauges, registers: Registry[]): void {
  let asked: Promise<readonly CostGauge[]> | undefined;
  /** One query for the three gauges. */
  const costs = (): Promise<readonly CostGauge[]> => {
    asked ??= gauges.costs().finally(() => {
      asked = undefined;
    });
    return asked;
  };
  const costGauge = (name: string, help: string, amountOf: (sum: CostGauge) => number | undefined): void => {
    new Gauge({
      name,
      help,
      labelNames: ["purpose"],
      registers,
      async collect() {
        // Purposes without a transaction for a day are removed; during an outage, all are.
        const sums = await costs().catch((): readonly CostGauge[] => []);
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
    name: "turnpike_renewals_due",
    help: "Subscriptions whose renewal is due now.",
    registers,
    collect() {
      return known(this, gauges.renewalsDue);
    },
  });
  new Gauge({
    name: "turnpike_webhooks_pending",
    help: "Deliveries in the outbox that are neither made nor given up.",
    registers,
    collect() {
      return known(this, gauges.webhooksPending);
    },
  });
}
