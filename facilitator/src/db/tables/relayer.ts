/**
 * Transactions of the relayer. A row is written as `queued` together with the rows it is for. Nonce and signed bytes
 * are stored before the first broadcast, so that a process that takes over sends the same bytes.
 */
import type { Generated, Selectable } from "kysely";

/** Report of the process that leases a lane, for processes without keys. */
export interface LaneReportsTable {
  chain_id: number;
  key: string;
  /** unix milliseconds by the database's clock */
  at_ms: number;
  /** balance of the native coin; null before it was read */
  balance_wei: string | null;
  is_balance_low: boolean;
  /** why nothing is sent or mined; null when there is no obstacle */
  obstacle: string | null;
  in_flight: number;
  queued: number;
  oldest_pending_sec: number;
}

/**
 * One row per relayer key: the process that may send with it, until when, and the next nonce. This row is the fence.
 */
export interface LanesTable {
  chain_id: number;
  /** address of the key */
  key: string;
  lease_owner: string;
  lease_epoch: number;
  /** unix milliseconds by the database's clock */
  lease_until_ms: number;
  next_nonce: number;
  status: "running" | "stopped";
  reason: string | null;
}

export type TransactionStatus = "queued" | "stored" | "mined" | "displaced";

export interface TransactionsTable {
  /** also the sending order */
  seq: Generated<number>;
  id: string;
  chain_id: number;
  purpose: string;
  idempotency_key: string;
  to_address: string;
  /** empty once retention has deleted it */
  data: string;
  gas_limit: number;
  status: TransactionStatus;
  created_at_ms: number;
  /** the only key that may send it; null: any */
  sender: string | null;
  key: string | null;
  nonce: number | null;
  /** epoch of the lane's lease under which the bytes were stored */
  epoch: number | null;
  stored_at_ms: number | null;
  hash: string | null;
  block_number: number | null;
  block_hash: string | null;
  success: boolean | null;
  gas_used: number | null;
  gas_price_wei: string | null;
  /** whether it is so deep that a reorganisation counts as impossible */
  is_final: Generated<boolean>;
}

/** Every signed form of a transaction: a fee bump adds one with the same nonce and calldata. */
export interface TransactionHashesTable {
  hash: string;
  chain_id: number;
  transaction_id: string;
  /** empty once retention has deleted it */
  raw: string;
  max_fee_wei: string;
  priority_fee_wei: string;
  signed_at_ms: number;
}

/** Sums of the final transactions that were deleted, as `rollup_costs` has them. */
export interface PrunedCostsTable {
  chain_id: number;
  purpose: string;
  transactions: number;
  failed: number;
  items: number;
  gas: string;
  wei: string;
}

export type TransactionRow = Selectable<TransactionsTable>;

/** A transaction without its calldata: a lane reads its open transactions many times a second, and a batch is long. */
export type OpenTransaction = Pick<TransactionRow, "id" | "purpose" | "nonce" | "gas_limit" | "stored_at_ms">;

export type SignedForm = Selectable<TransactionHashesTable>;

/** A signed form without its bytes, for the same reason. */
export type KnownForm = Omit<SignedForm, "raw">;
