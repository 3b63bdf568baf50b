/**
 * What the relayer sends. A row is written `queued` together with what it is for; nonce and signed bytes are stored
 * before the first broadcast, so that whoever resumes sends the same bytes.
 */
import type { Generated } from "kysely";

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
