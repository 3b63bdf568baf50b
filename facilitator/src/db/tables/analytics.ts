/** Rollups of valid events, one table per question. They are small where the events are many. */
import type { Generated } from "kysely";

/** Costs of final transactions by day and purpose. Each transaction is added once, when it becomes final. */
export interface RollupCostsTable {
  chain_id: number;
  /** day in chain time, unix seconds */
  bucket: number;
  purpose: string;
  transactions: number;
  failed: number;
  /** payments, signups, renewals and debits that moved money in these transactions */
  items: number;
  gas: string;
  wei: string;
}

/**
 * One row per period that fell due and was not charged at the first attempt. Derived from the valid events and the
 * subscription's state. Updated in the transaction that changes either, so that reverting a block reverts its part.
 * Events alone decide which periods have a row; the outcome also depends on the record.
 */
export interface FailedPeriodsTable {
  chain_id: number;
  id_hash: string;
  /** end of the period paid before, unix seconds */
  paid_through: number;
  provider: string;
  token: string;
  /** chain time of the first failure, or of the expiry if no renewal was tried */
  failed_at: number;
  cause: string;
  /** base units */
  price: string;
  /** moved: the record has a new id that has its own row; gone: there is no such record any more; neither is counted */
  outcome: "lost" | "open" | "recovered" | "moved" | "gone";
}

/**
 * Rollups of the gates' reports on requests: how many were asked to pay, paid and were served. Reported by gates, not
 * proved by the chain.
 */
export interface RollupFunnelTable {
  chain_id: number;
  /** empty for all providers together */
  provider: string;
  grain: number;
  bucket: number;
  /** path template; empty for all routes of a provider */
  resource: string;
  token: string;
  step: string;
  cause: string;
  offer: string;
  count: number;
  amount: string;
}

/** Reports that were counted, so that a repeated report is not counted again. */
export interface GateReportsTable {
  chain_id: number;
  provider: string;
  id: string;
  digest: string;
  /** chain time, unix seconds */
  accepted_at: number;
}

export interface GateResourcesTable {
  chain_id: number;
  provider: string;
  resource: string;
}

interface Summed {
  chain_id: number;
  count: number;
  amount: string;
}

/** Revenue by time, token and scheme; `provider` is empty for all providers together. */
export interface RollupVolumeTable extends Summed {
  provider: string;
  /** seconds: an hour or a day */
  grain: number;
  /** start of the hour or day, unix seconds */
  bucket: number;
  token: string;
  scheme: string;
}

/** Revenue and refunds by provider, span of days and plan, in the plan's token. */
export interface RollupProviderPlansTable extends Summed {
  provider: string;
  /** seconds: one of `SPANS` */
  grain: number;
  bucket: number;
  plan_id: string;
  scheme: string;
}

/** All-time revenue from each payer of a provider, and what of it was refunded. */
export interface RollupPayersTable extends Summed {
  provider: string;
  token: string;
  payer: string;
  refunds: Generated<number>;
  /** base units; not subtracted from `amount` */
  refunded: Generated<string>;
}

/** Number of events of each type, by day. */
export interface RollupEventsTable {
  chain_id: number;
  provider: string;
  grain: number;
  bucket: number;
  type: string;
  count: number;
}

/** Charges for periods, by period length and day: the basis of recurring revenue. */
export interface RollupRecurringTable extends Summed {
  provider: string;
  token: string;
  interval_sec: number;
  bucket: number;
}

/** Revenue of each provider by day, for the operator's totals. */
export interface RollupProvidersTable extends Summed {
  token: string;
  bucket: number;
  provider: string;
}

/** Revenue of each provider by four weeks, for queries over a year. */
export type RollupProviderSpansTable = RollupProvidersTable;

/** Number of failures by cause and day. */
export interface RollupCausesTable {
  chain_id: number;
  provider: string;
  bucket: number;
  type: string;
  cause: string;
  count: number;
}

/** Subscriptions by the day on which service ends and the length of their period. */
export interface RollupStandingTable {
  chain_id: number;
  /** empty for all providers together */
  provider: string;
  token: string;
  /** start of the day, unix seconds */
  bucket: number;
  interval_sec: number;
  count: number;
  /** sum of one period's price of each, base units */
  amount: string;
}

/** One row holds four weeks, so that a plan is read from two or three rows. */
export interface RollupPlanStandingTable {
  chain_id: number;
  /** start of the four weeks, unix seconds */
  bucket: number;
  plan_id: string;
  ends: number[];
}

/** Sums of the events that retention deleted. */
export interface PrunedSumsTable extends Summed {
  provider: string;
  /** seconds: an hour or a day */
  grain: number;
  /** start of the hour or day, unix seconds */
  bucket: number;
  /** a type of event, or a scheme of `rollup_volume` */
  counted: string;
  /** empty for a type of event */
  token: string;
}

/** The same by payer, of all days. */
export type PrunedPayersTable = RollupPayersTable;

/** The same by plan and day. */
export interface PrunedPlansTable extends Summed {
  provider: string;
  /** start of the day, unix seconds */
  bucket: number;
  plan_id: string;
  scheme: string;
}
