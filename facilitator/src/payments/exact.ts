/** The standard x402 "exact" channel: its request, its outcomes, and this service's refusals as x402 reasons. */
import type { Address, Hex, TurnpikeError } from "turnpike/protocol";
import type { SignedGrant } from "./grants";
import type { Authorization, Purchase } from "./payment-request";

export interface WaitOptions {
  /** maximum time to wait for the chain, in milliseconds */
  readonly waitMs: number;
}

export interface GrantOptions extends WaitOptions {
  /** returns whether the client has disconnected; nothing is granted then */
  readonly isGone: () => boolean;
}

export interface ExactRequest {
  readonly network: string;
  readonly token: Address;
  /** payee that the requirements name */
  readonly payTo: Address;
  readonly amount: bigint;
  /** resource that the server names; "" when it names none */
  readonly resource: string;
  readonly purchase: Purchase;
  readonly maxTimeoutSec: number;
  readonly authorization: Authorization;
  readonly signature: Hex;
}

export type X402Reason =
  | "insufficient_funds"
  | "invalid_exact_evm_nonce_already_used"
  | "invalid_exact_evm_payload_authorization_valid_after"
  | "invalid_exact_evm_payload_authorization_valid_before"
  | "invalid_exact_evm_payload_authorization_value"
  | "invalid_exact_evm_payload_recipient_mismatch"
  | "invalid_exact_evm_payload_signature"
  | "invalid_network"
  | "invalid_payload"
  | "invalid_payment_requirements"
  | "invalid_transaction_state"
  | "payment_already_granted"
  | "unsupported_payload_type"
  | "unexpected_settle_error";

export interface ExactFailure {
  readonly reason: X402Reason;
  readonly error: TurnpikeError;
}

export type ExactVerdict =
  /** `isReserved`: the amount is held for the purchase that the request names */
  | { readonly kind: "valid"; readonly payer: Address; readonly isReserved: boolean }
  | ({ readonly kind: "invalid"; readonly payer?: Address } & ExactFailure);

export interface Settled {
  readonly kind: "settled";
  readonly paymentId: Hex;
  readonly payer: Address;
  readonly transaction: Hex;
}

export type SettleOutcome =
  | Settled
  | {
      readonly kind: "pending";
      readonly paymentId: Hex;
      readonly payer: Address;
      readonly retryAfterSec: number;
      /** transaction that carries the payment, once signed */
      readonly transaction?: Hex;
    }
  | ({ readonly kind: "refused" | "failed"; readonly paymentId?: Hex; readonly payer?: Address } & ExactFailure);

export type GrantedOutcome =
  /** signed when the request names its purchase */
  | { readonly kind: "granted"; readonly grant?: SignedGrant }
  | ({ readonly kind: "refused" } & ExactFailure)
  | { readonly kind: "held" };

const REASONS: Readonly<Record<string, X402Reason>> = {
  network: "invalid_network",
  token: "invalid_payment_requirements",
  payee: "invalid_exact_evm_payload_recipient_mismatch",
  amount: "invalid_exact_evm_payload_authorization_value",
  resource: "invalid_payment_requirements",
  nonce: "invalid_payload",
  not_yet_valid: "invalid_exact_evm_payload_authorization_valid_after",
  expired: "invalid_exact_evm_payload_authorization_valid_before",
  window_too_long: "invalid_exact_evm_payload_authorization_valid_before",
  signature: "invalid_exact_evm_payload_signature",
  funds: "insufficient_funds",
  nonce_used: "invalid_exact_evm_nonce_already_used",
  nonce_spent_elsewhere: "invalid_exact_evm_nonce_already_used",
  cancelled: "invalid_exact_evm_nonce_already_used",
  other_contents: "invalid_transaction_state",
  other_door: "invalid_transaction_state",
  granted: "payment_already_granted",
};

export function exactFailure(error: TurnpikeError): ExactFailure {
  return { reason: REASONS[error.reason ?? ""] ?? "unexpected_settle_error", error };
}
