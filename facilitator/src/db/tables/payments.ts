import type { Generated } from "kysely";
import type { BytesColumn } from "../sql";

/** Payments that were sent and moved nothing, kept for an hour. */
export interface FailedSpendsTable {
  chain_id: number;
  /** unix milliseconds by the database's clock */
  at_ms: number;
  payer: string;
  pay_to: string;
}

/** The purchase that an x402 payment belongs to: reserved when the payment is accepted, granted once and for ever. */
export interface PaymentGrantsTable {
  chain_id: number;
  payment_id: BytesColumn;
  /** the gate's id, or that of the stock server's request that holds the payment */
  grant_id: BytesColumn;
  /** a gate's hold has no end; a stock server's ends with its request */
  is_gate: boolean;
  held_until_ms: number | null;
  granted_at_ms: number | null;
}

/**
 * A payment that a gate had verified for one purchase and has not settled: its amount is unavailable to the payer's
 * other payments. The row ends when the payment is accepted or released; past `expires_at` it counts for nothing.
 */
export interface PaymentReservationsTable {
  chain_id: number;
  payment_id: string;
  grant_id: string;
  payer: string;
  token: string;
  pay_to: string;
  amount: string;
  resource_hash: string;
  /** the authorization's `validBefore`, by the chain's clock */
  expires_at: number;
}

/** A payment, debit or charge that refunds were accepted for. Its row is locked while one is added to their sum. */
export interface RefundedTable {
  chain_id: number;
  /** a paymentId, or the id of a debit or charge */
  refunded_id: string;
  kind: "payment" | "debit" | "charge";
  /** receives the events: the payee of a payment, the provider of a plan */
  provider: string;
  payer: string;
  token: string;
  /** what was paid, base units */
  amount: string;
  /** A debit or charge has one; null for a payment. */
  plan_id: string | null;
  /** A debit or charge has the subscription's name when it was collected; null for a payment. */
  id_hash: string | null;
}

/** Names what each refund is for. Its transfer is the row of payments with this payment_id. */
export interface RefundsTable {
  chain_id: number;
  refunded_id: string;
  refund_index: number;
  payment_id: string;
}

/**
 * The deployment of a payer's wallet (ERC-6492), from its transaction until its payment has a row. A deployment whose
 * payment never gets one has cost gas for nothing.
 */
export interface WalletDeploymentsTable {
  chain_id: number;
  wallet: string;
  transaction_id: string;
  payment_id: string;
  /** It signs that payment, without the ERC-6492 wrapper. */
  signature: string;
  pay_to: string;
  valid_before: number;
}

/** The account that a provider has named, by its signature, for automatic refunds of its payments in one token. */
export interface RefundAccountsTable {
  chain_id: number;
  provider: string;
  token: string;
  account: string;
  /** base units within 24 hours */
  daily_cap: string;
  /** only a higher one replaces the row */
  version: number;
  /** unix seconds, by the chain's clock */
  expires_at: number;
  facilitator: string;
  signature: string;
  named_at_ms: number;
  revoked_at_ms: number | null;
}

/** A payment that is refunded automatically: once, and counted in the cap of its provider and token. */
export interface AutomaticRefundsTable {
  chain_id: number;
  refunded_id: string;
  provider: string;
  token: string;
  account: string;
  amount: string;
  /** unix milliseconds by the database's clock */
  accepted_at_ms: number;
  /** JSON of the provider's statement that named the account; null where the chain had the refund before */
  naming: string | null;
}

/** Channel through which a transfer was accepted: two for payments, one for refunds. */
export type PaymentChannel = "authorize" | "settle" | "refund";

/**
 * State of a payment.
 * queued: accepted, in no transaction.
 * sent: in the transaction `transaction_id`.
 * parked: its transaction was mined without moving it; it may still move until `valid_before`.
 * settled: `tx_hash` and `log_index` prove it.
 * failed: it can never move money.
 * waived: an `upto` payment that was settled at 0; it is never sent, and pays for nothing else.
 */
export type PaymentState = "queued" | "sent" | "parked" | "settled" | "failed" | "waived";

/**
 * How the money moves.
 * eip3009: the token's own transferWithAuthorization.
 * permit2: x402's proxy for exact payments, which anyone may call.
 * upto: x402's proxy for payments up to a maximum, which only the key `sender` may call.
 */
export type PaymentMethod = "eip3009" | "permit2" | "upto";

export interface PaymentRow {
  chain_id: number;
  payment_id: string;
  door: PaymentChannel;
  resource_hash: string;
  /** origin and path, never the query */
  resource_shown: string;
  /** ties it to a request of the provider's; text of a stranger's choice; null: none, or accepted before migration 640 */
  memo?: string | null;
  token: string;
  payer: string;
  pay_to: string;
  amount: string;
  nonce: string;
  valid_after: number;
  valid_before: number;
  signature: string;
  method: PaymentMethod;
  /** upto: the maximum that the payer signed, in base units */
  permitted: string | null;
  /** upto: the only account that may settle */
  sender: string | null;
  /** permit2 and upto: JSON of the EIP-2612 permit that approves Permit2, when the payer sent one */
  token_permit: string | null;
  /** whether the payer is a contract, whose signature check may need much gas */
  has_code: boolean;
  state: PaymentState;
  fail_code: string | null;
  fail_reason: string | null;
  /** whether it was reported as settled and its block was reverted afterwards */
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
  /** when this service saw the settlement, unix milliseconds by the database's clock; used for latency */
  settled_at_ms?: number | null;
  /** the request that accepted it, as the header `traceparent` names it; null where its trace is not kept */
  traceparent?: string | null;
}

/** Columns of bytes that have a value when the payment is accepted. */
type AcceptedBytes = "resource_hash" | "nonce" | "signature";

/** An insert of the release before leaves the method out. */
export interface PaymentsTable extends Omit<PaymentRow, AcceptedBytes | "tx_hash" | "block_hash" | "method"> {
  resource_hash: BytesColumn;
  nonce: BytesColumn;
  signature: BytesColumn;
  tx_hash: BytesColumn<null>;
  block_hash: BytesColumn<null>;
  method: Generated<PaymentMethod>;
}
