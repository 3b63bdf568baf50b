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
  plan_id: string;
  /** unix seconds, exclusive end of the paid period */
  paid_through: number;
  version: number;
  paused: boolean;
  ending: boolean;
  cancelled: boolean;
  /** id of the record that it was rekeyed to */
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
