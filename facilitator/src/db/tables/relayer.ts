/**
 * What the relayer sends. A row is written `queued` together with what it is for; nonce and signed bytes are stored
 * before the first broadcast, so that whoever resumes sends the same bytes.
 */
import { type Generated, type Selectable, sql } from "kysely";
import type { Db } from "../open";
import { databaseNowMs } from "../sql";

/** What the process that holds a lane reports of it, for the processes that hold no key. */
export interface LaneReportsTable {
  chain_id: number;
  key: string;
  /** unix milliseconds by the database's clock */
  at_ms: number;
  /** native coin; null before it was read */
  balance_wei: string | null;
  is_balance_low: boolean;
  /** why nothing is sent or mined; null while nothing is in the way */
  obstacle: string | null;
  in_flight: number;
  queued: number;
  oldest_pending_sec: number;
}

/** Stores nothing when another process has acquired the lane since `epoch`: its own report counts. */
export async function storeLaneReport(db: Db, epoch: number, report: Omit<LaneReportsTable, "at_ms">): Promise<void> {
  const { chain_id, key, balance_wei, is_balance_low, obstacle, in_flight, queued, oldest_pending_sec } = report;
  await sql`
    insert into lane_reports (chain_id, key, at_ms, balance_wei, is_balance_low, obstacle, in_flight, queued,
      oldest_pending_sec)
    select l.chain_id, l.key, ${databaseNowMs}, ${balance_wei}::numeric, ${is_balance_low}::boolean, ${obstacle}::text,
      ${in_flight}::bigint, ${queued}::bigint, ${oldest_pending_sec}::bigint
    from lanes l where l.chain_id = ${chain_id}::bigint and l.key = ${key} and l.lease_epoch = ${epoch}::bigint
    on conflict (chain_id, key) do update set at_ms = excluded.at_ms, balance_wei = excluded.balance_wei,
      is_balance_low = excluded.is_balance_low, obstacle = excluded.obstacle, in_flight = excluded.in_flight,
      queued = excluded.queued, oldest_pending_sec = excluded.oldest_pending_sec`.execute(db);
}

/** One row per relayer key: who may send with it, until when, and the next nonce. The row is the fence. */
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
  /** also the order of sending */
  seq: Generated<number>;
  id: string;
  chain_id: number;
  purpose: string;
  idempotency_key: string;
  to_address: string;
  data: string;
  gas_limit: number;
  status: TransactionStatus;
  created_at_ms: number;
  key: string | null;
  nonce: number | null;
  /** of the lane's lease under which the bytes were stored */
  epoch: number | null;
  stored_at_ms: number | null;
  hash: string | null;
  block_number: number | null;
  block_hash: string | null;
  success: boolean | null;
  gas_used: number | null;
  gas_price_wei: string | null;
  /** deep enough that a reorganisation is taken to be impossible */
  is_final: Generated<boolean>;
}

/** Every signed form of a transaction: a fee bump adds one with the same nonce and calldata. */
export interface TransactionHashesTable {
  hash: string;
  chain_id: number;
  transaction_id: string;
  raw: string;
  max_fee_wei: string;
  priority_fee_wei: string;
  signed_at_ms: number;
}

export type TransactionRow = Selectable<TransactionsTable>;

/** Without its calldata: a lane looks at its open transactions many times a second, and a batch is long. */
export type OpenTransaction = Pick<TransactionRow, "id" | "purpose" | "nonce" | "stored_at_ms">;

export type SignedForm = Selectable<TransactionHashesTable>;

/** Without its bytes, for the same reason. */
export type KnownForm = Omit<SignedForm, "raw">;
