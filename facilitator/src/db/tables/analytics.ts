/** Sums over the events that stand, one table per question: they are small where the events are many. */
/** What final transactions have cost, by day and purpose. Added to once for each, when it becomes final. */
export interface RollupCostsTable {
  chain_id: number;
  /** day of the chain, unix seconds */
  bucket: number;
  purpose: string;
  transactions: number;
  /** of these, reverted */
  failed: number;
  /** payments, signups, renewals, debits that moved money in them */
  items: number;
  gas: string;
  wei: string;
}

/**
 * What fell due and was not charged at the first attempt, a row for each such period. Made of the events that stand and of
 * how the subscription stands, and made anew in the transaction that changes either, so that a block which is taken back
 * takes its share with it. Which periods have a row is decided by the events alone, the outcome by the record too.
 */
export interface FailedPeriodsTable {
  chain_id: number;
  id_hash: string;
  /** where the period that was paid before it ended, unix seconds */
  paid_through: number;
  provider: string;
  token: string;
  /** chain time of the first failure, or of the expiry of what was never tried */
  failed_at: number;
  cause: string;
  /** base units */
  price: string;
  /** moved: its new name has told the same of itself; gone: there is no such record (any more); neither is counted */
  outcome: "lost" | "open" | "recovered" | "moved" | "gone";
}

/** What gates tell of their requests, in sums: who was asked to pay, who paid, who was served. A gate's word, not the chain's. */
export interface RollupFunnelTable {
  chain_id: number;
  /** empty for all of them together */
  provider: string;
  grain: number;
  bucket: number;
  /** a path's template; empty for all of a provider's together */
  resource: string;
  token: string;
  step: string;
  cause: string;
  offer: string;
  count: number;
  amount: string;
}

/** Which reports were counted, so that one that is sent again is not. */
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

/** Money by time, token and scheme; `provider` is empty for all of them together. */
export interface RollupVolumeTable extends Summed {
  provider: string;
  /** seconds: an hour or a day */
  grain: number;
  /** start of it, unix seconds */
  bucket: number;
  token: string;
  scheme: string;
}

/** Money by provider, span of days and plan, in the plan's token. */
export interface RollupProviderPlansTable extends Summed {
  provider: string;
  /** seconds: one of `SPANS` */
  grain: number;
  bucket: number;
  plan_id: string;
  scheme: string;
}

/** Money of each payer of a provider, ever. */
export interface RollupPayersTable extends Summed {
  provider: string;
  token: string;
  payer: string;
}

/** How often what happened, by day. */
export interface RollupEventsTable {
  chain_id: number;
  provider: string;
  grain: number;
  bucket: number;
  type: string;
  count: number;
}

/** What was charged for periods, by their length and day: what recurs follows from it. */
export interface RollupRecurringTable extends Summed {
  provider: string;
  token: string;
  interval_sec: number;
  bucket: number;
}

/** What each provider was paid, by day: the operator asks for all of them. */
export interface RollupProvidersTable extends Summed {
  token: string;
  bucket: number;
  provider: string;
}

/** The same by four weeks: a year is read by these. */
export type RollupProviderSpansTable = RollupProvidersTable;

/** Why something failed, by day. */
export interface RollupCausesTable {
  chain_id: number;
  provider: string;
  bucket: number;
  type: string;
  cause: string;
  count: number;
}

/** By the day on which service ends, of the plans that are paid for periods of one length. */
export interface RollupStandingTable {
  chain_id: number;
  /** empty for all of them together */
  provider: string;
  token: string;
  /** start of the day, unix seconds */
  bucket: number;
  interval_sec: number;
  count: number;
  /** of one period of each, base units */
  amount: string;
}

/** One row holds four weeks: a plan is read from two or three places. */
export interface RollupPlanStandingTable {
  chain_id: number;
  /** start of the four weeks, unix seconds */
  bucket: number;
  plan_id: string;
  /** of each day: how many are served until then */
  ends: number[];
}
