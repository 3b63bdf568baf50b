/** Defines the metrics. One registry per service, so that several services can run in one process. */
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { version } from "../../package.json";
import { type DatabaseGauges, type Gauges, registerDatabaseGauges, registerGauges } from "./gauges";

export type Metrics = ReturnType<typeof createMetrics>;

export type PaymentMetrics = ReturnType<typeof createPaymentMetrics>;

/**
 * Stages of a payment whose duration is measured.
 * intake: from the request until the payment is admitted or refused.
 * judge: reading the payer's account and checking the signature, within intake.
 * bind: writing the payment to the database, within intake.
 * queue: from admission until its transaction is signed.
 * submit: until a node answers the transaction's broadcast.
 * mine: from signing until the transaction's block is indexed.
 * confirm: from that block until it is deep enough, as far as a request waits for it.
 * notify: from the event until its webhook is delivered.
 */
export const PAYMENT_STAGES = ["intake", "judge", "bind", "queue", "submit", "mine", "confirm", "notify"] as const;

export type PaymentStage = (typeof PAYMENT_STAGES)[number];

/** Seconds: from a check in memory to a block of a slow chain. */
const STAGE_BUCKETS = [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300];

export interface MetricFacts {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
}

/** Metrics of one chain among several: all have the label `chain`, and HTTP is counted for the whole service. */
export interface ChainLabel {
  readonly chain: string;
  readonly service: ServiceMetrics;
}

export function createMetrics(label?: ChainLabel) {
  const registry = new Registry();
  const registers = [registry];
  if (label) registry.setDefaultLabels({ chain: label.chain });
  else registerProcess(registry);
  const counted = {
    ...(label?.service ?? createHttpMetrics(registers)),
    ...createPaymentMetrics(registers),
    ...createChainMetrics(registers),
    ...createWorkMetrics(registers),
  };
  beginAtZero(counted);
  const up = new Gauge({
    name: "turnpike_chain_up",
    help: "1 while this process runs the chain, 0 while it starts it or cannot.",
    registers,
  });
  up.set(0);
  label?.service.add(registry);
  return {
    ...counted,
    contentType: registry.contentType,
    text: () => label?.service.text() ?? registry.metrics(),
    /** Registers the gauges, once, when the services behind them run. */
    watch(gauges: Gauges & DatabaseGauges): void {
      // Of several chains, the service reports the database that they share.
      if (!label) registerDatabaseGauges(gauges, registers);
      registerGauges(gauges, registers);
      up.set(1);
    },
    list: (): MetricFacts[] =>
      registry.getMetricsAsArray().map((metric) => {
        const { name, help, labelNames = [] } = metric as unknown as MetricFacts & { labelNames?: readonly string[] };
        return { name, help, labels: labelNames };
      }),
    close: () => registry.clear(),
  };
}

export type ServiceMetrics = ReturnType<typeof createServiceMetrics>;

/** Metrics of a service on several chains: of the process, HTTP and the database, and those of each chain that is added. */
export function createServiceMetrics() {
  const registry = new Registry();
  const all = [registry];
  registerProcess(registry);
  return {
    ...createHttpMetrics([registry]),
    contentType: registry.contentType,
    add: (chain: Registry): void => void all.push(chain),
    /** Registers the gauges of the database, once, when it is open. */
    watchDatabase: (gauges: DatabaseGauges): void => registerDatabaseGauges(gauges, [registry]),
    /** Each chain's series differ by their label, so that none is summed with another's. */
    async text(): Promise<string> {
      const read = await Promise.all(all.map((one) => one.getMetricsAsJSON()));
      return AggregatorRegistry.aggregate(read).metrics();
    },
    close(): void {
      for (const one of all) one.clear();
    },
  };
}

function registerProcess(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  new Gauge({
    name: "turnpike_build_info",
    help: "Always 1; the label has the version of the Facilitator.",
    labelNames: ["version"],
    registers: [registry],
  }).set({ version }, 1);
}

/** An alert cannot see the first increase of a series that did not exist before. */
function beginAtZero({
  problems,
  failed,
  mined,
  webhooks,
}: Pick<Metrics, "problems" | "failed" | "mined" | "webhooks">) {
  problems.inc({ code: "Internal" }, 0);
  failed.inc({ reason: "expired" }, 0);
  mined.inc({ purpose: "settle", result: "reverted" }, 0);
  webhooks.inc({ outcome: "exhausted" }, 0);
}

function createHttpMetrics(registers: Registry[]) {
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
    problems: new Counter({
      name: "turnpike_http_errors_total",
      help: "HTTP answers with an error, by its code.",
      labelNames: ["code"] as const,
      registers,
    }),
  };
}

function createPaymentMetrics(registers: Registry[]) {
  const stages = new Histogram({
    name: "turnpike_payment_stage_seconds",
    help: "Duration of each stage of a payment: intake, judge, bind, queue, submit, mine, confirm, notify.",
    labelNames: ["stage"] as const,
    buckets: STAGE_BUCKETS,
    registers,
  });
  for (const stage of PAYMENT_STAGES) stages.zero({ stage });
  const byStage = Object.fromEntries(PAYMENT_STAGES.map((stage) => [stage, stages.labels(stage)]));
  return {
    admitted: new Counter({
      name: "turnpike_payments_admitted_total",
      help: "Payments that were accepted, by channel: authorize, settle, refund.",
      labelNames: ["channel"] as const,
      registers,
    }),
    refusals: new Counter({
      name: "turnpike_payment_refusals_total",
      help: "Payment requests that were refused, by the error's code and its reason.",
      labelNames: ["code", "reason"] as const,
      registers,
    }),
    settled: new Counter({
      name: "turnpike_payments_settled_total",
      help: "Payments that a block has settled; counted by the process that indexes.",
      registers,
    }),
    failed: new Counter({
      name: "turnpike_payments_failed_total",
      help: "Accepted payments that can never move money, by reason; counted by the process that indexes.",
      labelNames: ["reason"] as const,
      registers,
    }),
    reversed: new Counter({
      name: "turnpike_payments_reversed_total",
      help: "Settled payments whose block was reorganised away.",
      registers,
    }),
    settleSeconds: new Histogram({
      name: "turnpike_payment_settle_seconds",
      help: "Time from a payment's acceptance to its settlement; measured by the process that indexes.",
      buckets: [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300],
      registers,
    }),
    stageTook(stage: PaymentStage, ms: number): void {
      byStage[stage]?.observe(Math.max(0, ms) / 1_000);
    },
  };
}

function createChainMetrics(registers: Registry[]) {
  return {
    mined: new Counter({
      name: "turnpike_transactions_mined_total",
      help: "This Facilitator's transactions that were mined, by purpose and result: success, reverted.",
      labelNames: ["purpose", "result"] as const,
      registers,
    }),
    feeRaises: new Counter({
      name: "turnpike_transaction_fee_raises_total",
      help: "Fees that were raised because a transaction was not mined in time.",
      registers,
    }),
    reorganisations: new Counter({
      name: "turnpike_reorganisations_total",
      help: "Reorganisations of the chain that reverted indexed blocks.",
      registers,
    }),
    reorganisedBlocks: new Counter({
      name: "turnpike_reorganised_blocks_total",
      help: "Indexed blocks that were reorganised away.",
      registers,
    }),
  };
}

function createWorkMetrics(registers: Registry[]) {
  return {
    upkeepWaits: new Gauge({
      name: "turnpike_upkeep_waiting_seconds",
      help: "Seconds for which old rows could not be deleted, by what they are and why: database, the code of a file's error, or fault.",
      labelNames: ["task", "reason"] as const,
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
