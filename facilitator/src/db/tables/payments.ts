/** One row for each payment that was sent and moved nothing, for an hour. */
export interface FailedSpendsTable {
  chain_id: number;
  /** by the database's clock */
  at_ms: number;
  payer: string;
  pay_to: string;
}
/** To which purchase an x402 payment belongs: held from its acceptance on, granted once, for ever. */
export interface PaymentGrantsTable {
  chain_id: number;
  payment_id: string;
  /** the gate's, or that of the stock server's request that holds the payment */
  grant_id: string;
  /** a gate's hold has no end; a stock server's ends with its request */
  is_gate: boolean;
  /** by the database's clock; null for a gate */
  held_until_ms: number | null;
  granted_at_ms: number | null;
}
/** One-time payments: what was accepted, through which door, and the log that proves it settled. */
export type PaymentDoor = "authorize" | "settle";

/**
 * queued: accepted, in no transaction. sent: in the transaction `transaction_id`. parked: a transaction was mined in
 * which it did not move; it may still, until `valid_before`. settled: `tx_hash` and `log_index` prove it.
 * failed: it can never move money.
 */
export type PaymentState = "queued" | "sent" | "parked" | "settled" | "failed";

export interface PaymentsTable {
  chain_id: number;
  payment_id: string;
  door: PaymentDoor;
  resource_hash: string;
  /** origin and path, never the query */
  resource_shown: string;
  token: string;
  payer: string;
  pay_to: string;
  amount: string;
  nonce: string;
  valid_after: number;
  valid_before: number;
  signature: string;
  /** the payer is a contract: its check of the signature may need much gas */
  has_code: boolean;
  state: PaymentState;
  fail_code: string | null;
  fail_reason: string | null;
  /** was told to be settled, then its block was reorganised away */
  is_reversed: boolean;
  attempts: number;
  accepted_at_ms: number;
  accepted_block: number;
  transaction_id: string | null;
  tx_hash: string | null;
  block_number: number | null;
  block_hash: string | null;
  block_time: number | null;
  log_index: number | null;
  /** when this service saw it, by the database's clock: how long it took */
  settled_at_ms?: number | null;
}

export type PaymentRow = PaymentsTable;
