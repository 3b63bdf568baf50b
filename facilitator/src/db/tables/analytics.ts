/**
 * Rollups of valid events, which are small where the events are many. The sums of events that retention deleted are kept
 * beside them, in tables of the same columns.
 */
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

/** One row per end of a subscription, derived from the valid events. Times are chain time, unix seconds. */
export interface EndingsTable {
  chain_id: number;
  /** of the event by which it ended */
  seq: number;
  id_hash: string;
  provider: string;
  payer: string;
  token: string;
  /** null for a record that continues another one */
  created_at: number | null;
  ended_at: number;
  /** when the subscription was resumed or ended again */
  next_at: number | null;
  /** when the payer first began a subscription of this provider again, and the block of it */
  back_at: number | null;
  back_block: number | null;
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

/** Revenue and numbers of events by hour or day; `provider` is empty for all providers together. */
export interface RollupTotalsTable extends Summed {
  provider: string;
  /** seconds: an hour, of money alone, or a day */
  grain: number;
  /** start of the hour or day, unix seconds */
  bucket: number;
  /** a scheme, `refund` or a type of event; without a token also the type of a failure and its cause */
  kind: string;
  /** empty for what is counted alone */
  token: string;
  /** length of the period that was paid for, of days; 0 where there is none */
  interval_sec: number;
}

/** Revenue and refunds by provider, day and plan. */
export interface RollupPlansTable extends Summed {
  provider: string;
  /** start of the day, unix seconds */
  bucket: number;
  plan_id: string;
  kind: string;
  token: string;
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

/** Revenue of each provider by day, for the operator's totals. */
export interface RollupProvidersTable extends Summed {
  token: string;
  bucket: number;
  provider: string;
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

/** The same of the events that retention deleted. */
export type PrunedTotalsTable = RollupTotalsTable;

export type PrunedPlansTable = RollupPlansTable;

export type PrunedPayersTable = RollupPayersTable;
