/**
 * The standard x402 channel, schemes `exact` and `upto`: its request, its outcomes, and this service's refusals as x402
 * reasons.
 */
import type { Address, Hex, TurnpikeError } from "turnpike/protocol";
import type { SignedGrant } from "./grants";
import type { Purchase } from "./payment-request";
import { type Authorization, EIP3009, type Transfer } from "./transfer";

export interface WaitOptions {
  readonly waitMs: number;
}

export interface GrantOptions extends WaitOptions {
  /** returns whether the client has disconnected; nothing is granted then */
  readonly isGone: () => boolean;
}

export interface ExactRequest {
  readonly network: string;
  readonly token: Address;
  readonly payTo: Address;
  readonly amount: bigint;
  /** resource that the server names; "" when it names none */
  readonly resource: string;
  readonly memo?: string | undefined;
  readonly purchase: Purchase;
  readonly maxTimeoutSec: number;
  readonly authorization: Authorization;
  /** absent: the token's EIP-3009 */
  readonly transfer?: Transfer;
  readonly signature: Hex;
}

export type X402Reason =
  | "eip6492_factory_not_allowed"
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
  | "eip2612_asset_mismatch"
  | "eip2612_deadline_expired"
  | "eip2612_from_mismatch"
  | "eip2612_spender_not_permit2"
  | "invalid_eip2612_extension_format"
  | "permit2_2612_amount_mismatch"
  | "invalid_transaction_state"
  | "invalid_permit2_recipient_mismatch"
  | "invalid_permit2_signature"
  | "invalid_permit2_spender"
  | "invalid_upto_evm_payload_settlement_exceeds_amount"
  | "permit2_allowance_required"
  | "permit2_amount_mismatch"
  | "permit2_deadline_expired"
  | "permit2_insufficient_balance"
  | "permit2_invalid_nonce"
  | "permit2_not_yet_valid"
  | "permit2_simulation_failed"
  | "permit2_token_mismatch"
  | "upto_facilitator_mismatch"
  | "payment_already_granted"
  | "smart_wallet_deployment_failed"
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
  /** "" when an `upto` payment was settled at 0 */
  readonly transaction: Hex | "";
}

export type SettleOutcome =
  | Settled
  | {
      readonly kind: "pending";
      readonly paymentId: Hex;
      readonly payer: Address;
      readonly retryAfterSec: number;
      /** transaction that carries the payment, once signed */
      readonly transaction?: Hex | "";
    }
  | ({ readonly kind: "refused" | "failed"; readonly paymentId?: Hex; readonly payer?: Address } & ExactFailure);

export type GrantedOutcome =
  /** signed when the request names its purchase */
  | { readonly kind: "granted"; readonly grant?: SignedGrant }
  | ({ readonly kind: "refused" } & ExactFailure)
  | { readonly kind: "held" };

const REASONS: Readonly<Record<string, X402Reason>> = {
  network: "invalid_network",
  method: "unsupported_payload_type",
  token: "invalid_payment_requirements",
  payee: "invalid_exact_evm_payload_recipient_mismatch",
  amount: "invalid_exact_evm_payload_authorization_value",
  resource: "invalid_payment_requirements",
  nonce: "invalid_payload",
  not_yet_valid: "invalid_exact_evm_payload_authorization_valid_after",
  expired: "invalid_exact_evm_payload_authorization_valid_before",
  window_too_long: "invalid_exact_evm_payload_authorization_valid_before",
  signature: "invalid_exact_evm_payload_signature",
  wallet_factory: "eip6492_factory_not_allowed",
  wallet_deployment: "smart_wallet_deployment_failed",
  funds: "insufficient_funds",
  nonce_used: "invalid_exact_evm_nonce_already_used",
  nonce_spent_elsewhere: "invalid_exact_evm_nonce_already_used",
  cancelled: "invalid_exact_evm_nonce_already_used",
  other_contents: "invalid_transaction_state",
  other_door: "invalid_transaction_state",
  granted: "payment_already_granted",
};

/** What the reference says of a payment over Permit2, where it differs. */
const PERMIT2_REASONS: Readonly<Record<string, X402Reason>> = {
  payee: "invalid_permit2_recipient_mismatch",
  amount: "permit2_amount_mismatch",
  spender: "invalid_permit2_spender",
  not_yet_valid: "permit2_not_yet_valid",
  expired: "permit2_deadline_expired",
  window_too_long: "permit2_deadline_expired",
  signature: "invalid_permit2_signature",
  funds: "permit2_insufficient_balance",
  allowance: "permit2_allowance_required",
  permit_expired: "eip2612_deadline_expired",
  nonce_used: "permit2_invalid_nonce",
  not_moved: "permit2_simulation_failed",
  settler: "upto_facilitator_mismatch",
  above_maximum: "invalid_upto_evm_payload_settlement_exceeds_amount",
};

/** @param transfer how the payment moves: the reference has other words for payments over Permit2 */
export function exactFailure(error: TurnpikeError, transfer: Transfer = EIP3009): ExactFailure {
  const own = transfer.method === "eip3009" ? undefined : PERMIT2_REASONS[error.reason ?? ""];
  return { reason: own ?? REASONS[error.reason ?? ""] ?? "unexpected_settle_error", error };
}
