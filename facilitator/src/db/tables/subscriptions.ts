/**
 * Subscriptions, their allowances and debits, derived from the chain's events. The status is computed, never stored.
 */
import type { Generated } from "kysely";

/** Debits that providers requested, with the transaction of each, so that a repeated request finds it. */
export interface DebitRequestsTable {
  chain_id: number;
  id_hash: string;
  debit_index: number;
  /** from 0; increases only when the previous attempt can never be mined */
  attempt: number;
  amount: string;
  provider: string;
  /** set in the transaction that inserts the row */
  transaction_id: string | null;
  /** why this attempt did not debit; null while it still may */
  closed_code: string | null;
  accepted_at_ms: number;
}

/** Plans and their operators, derived from the chain's events. */
export interface PlansTable {
  chain_id: number;
  plan_id: string;
  plan_index: number;
  provider: string;
  token: string;
  amount: string;
  /** of a period in months a nominal length, 30 days for each month */
  interval_sec: number;
  /** calendar months in one period; 0: periods are counted in seconds */
  months: Generated<number>;
  grace_sec: number;
  /** receives every charge and debit now */
  pay_to: string;
  /** the payee at creation; null: it has never moved */
  first_provider: string | null;
  first_pay_to: string | null;
  /** another payee that is proposed; null: none */
  proposed_pay_to: string | null;
  /** unix seconds from when on anyone can apply the proposal */
  pay_to_effective_at: number | null;
  salt: string;
  metadata: string;
  deprecated: boolean;
  /** unix seconds since when it charges nothing; null: it was not stopped */
  stopped_at: number | null;
  successor: string | null;
  block_number: number;
  created_at: number;
}

export interface OperatorsTable {
  chain_id: number;
  plan_id: string;
  operator: string;
  /** a sum of the bits DEBIT 1, VOUCHER 2 and RECEIPT 4 */
  rights: Generated<number>;
}

/** Work list of the renewals: one row per subscription that will be collectable, claimed by lease. */
export interface RenewalDueTable {
  chain_id: number;
  id_hash: string;
  /** unix seconds of the next check: at first the end of the paid period; for a leased row the end of its lease */
  due_at: number;
  /** end of the period that this row renews */
  paid_through: number;
  attempts: number;
  lease_owner: string | null;
  /** unix seconds of the chain */
  lease_until: number;
  /** whether it is due and not leased; the next two columns are current then */
  is_ready: Generated<boolean>;
  provider: string | null;
  /** unix seconds */
  grace_ends_at: number | null;
}

/** Work list of the ends that subscribers set: one row per record that has one and has not ended. */
export interface SubscriptionEndsTable {
  chain_id: number;
  id_hash: string;
  /** unix seconds: the later of the end and of the paid period's end */
  ends_at: number;
}

/** The transaction of each accepted signed act: one row per attempt. */
export interface SignedActsTable {
  chain_id: number;
  /** hash of the signed content: the same request has the same key */
  act_key: string;
  /** from 0; increases only when the previous attempt can never be mined */
  attempt: number;
  act: string;
  /** idHash, or the token of a permit */
  object_id: string;
  signer: string;
  transaction_id: string;
  /** unix seconds of the chain */
  accepted_at: number;
}

export interface SubscriptionsTable {
  chain_id: number;
  id_hash: string;
  subscriber: string;
  /** all zero: the id hash is voided and has no plan */
  plan_id: string;
  /** unix seconds, exclusive end of the paid period */
  paid_through: number;
  version: number;
  paused: boolean;
  ending: boolean;
  cancelled: boolean;
  /** the paid period was begun with a voucher */
  intro: Generated<boolean>;
  /** the day of the month on which periods start, 1 to 31; 0 for periods in seconds */
  anchor_day: Generated<number>;
  /** unix seconds, from when on nothing is charged but debits of the paid period; 0: no end is set */
  until: Generated<number>;
  /** the plan of the next charged period; null: the same */
  next_plan_id: string | null;
  moved_to: string | null;
  block_number: number;
  created_at: number;
  transaction: string;
}

export interface AllowancesTable {
  chain_id: number;
  id_hash: string;
  cap: string;
  spent: string;
  /** value of paid_through that `spent` belongs to */
  cycle: number;
  debits: number;
}

export interface DebitsTable {
  chain_id: number;
  id_hash: string;
  debit_index: number;
  amount: string;
  transaction: string;
  block_number: number;
  block_time: number;
  log_index: number;
}
