/** Subscriptions, their allowances and debits, as the chain's events tell them. The status is computed, never stored. */
import type { Generated } from "kysely";

/** Debits that providers asked for: which transaction carries each, so that a repeated request finds it. */
export interface DebitRequestsTable {
  chain_id: number;
  id_hash: string;
  debit_index: number;
  /** from 0; a further one only when the one before can never land */
  attempt: number;
  amount: string;
  provider: string;
  /** set in the transaction that inserts the row */
  transaction_id: string | null;
  /** why this attempt did not debit; absent while it may */
  closed_code: string | null;
  accepted_at_ms: number;
}

/** Plans and their operators, as the chain's events tell them. */
export interface PlansTable {
  chain_id: number;
  plan_id: string;
  plan_index: number;
  provider: string;
  token: string;
  amount: string;
  interval_sec: number;
  grace_sec: number;
  pay_to: string;
  salt: string;
  metadata: string;
  deprecated: boolean;
  successor: string | null;
  block_number: number;
  created_at: number;
}

export interface OperatorsTable {
  chain_id: number;
  plan_id: string;
  operator: string;
  allowed: boolean;
}

/** Narrow work list of the renewals: one row per subscription that will be collectable, claimed by lease. */
export interface RenewalDueTable {
  chain_id: number;
  id_hash: string;
  /** unix seconds: when to look at it next; at first the end of the paid period, of a leased row the end of its lease */
  due_at: number;
  /** the period's end that this row is about */
  paid_through: number;
  attempts: number;
  lease_owner: string | null;
  /** unix seconds of the chain */
  lease_until: number;
  /** its time has come, and nobody has it: the next two are of now */
  is_ready: Generated<boolean>;
  provider: string | null;
  /** unix seconds */
  grace_ends_at: number | null;
}

/** The transaction behind each signed act that was accepted: one row per attempt to land it. */
export interface SignedActsTable {
  chain_id: number;
  /** hash of what was signed: the same request is the same key */
  act_key: string;
  /** from 0; a further one only when the one before can never land */
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
  plan_id: string;
  /** unix seconds, exclusive end of the paid period */
  paid_through: number;
  version: number;
  paused: boolean;
  ending: boolean;
  cancelled: boolean;
  /** where a rekeyed record went */
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
  /** the paid_through that `spent` belongs to */
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
