/** Reasons as the reference's packages of each protocol version name them. */
import type { X402Reason } from "../payments/exact";
import type { Transfer } from "../payments/transfer";

/** Version 2 of the reference names these differently; all other reasons are the same. */
const VERSION_2: Readonly<Partial<Record<X402Reason, string>>> = {
  insufficient_funds: "invalid_exact_evm_insufficient_balance",
  invalid_exact_evm_payload_authorization_value: "invalid_exact_evm_payload_authorization_value_mismatch",
  invalid_exact_evm_payload_recipient_mismatch: "invalid_exact_evm_recipient_mismatch",
  invalid_exact_evm_payload_signature: "invalid_exact_evm_signature",
  invalid_network: "invalid_exact_evm_network_mismatch",
  unexpected_settle_error: "invalid_exact_evm_transaction_failed",
};

/**
 * Returns the word for a refused payload of this protocol version.
 * @param transfer how the payment moves: payments over Permit2 have words of their own
 */
export const wordOf = (version: 1 | 2, reason: X402Reason, transfer?: Transfer): string =>
  (version === 2 && (transfer?.method ?? "eip3009") === "eip3009" ? VERSION_2[reason] : undefined) ?? reason;
