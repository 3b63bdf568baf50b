/** Reasons as the reference's packages of each protocol version name them. */
import type { X402Reason } from "../payments/exact";

/** Version 2 of the reference names these differently; all other reasons are the same. */
const VERSION_2: Readonly<Partial<Record<X402Reason, string>>> = {
  insufficient_funds: "invalid_exact_evm_insufficient_balance",
  invalid_exact_evm_payload_authorization_value: "invalid_exact_evm_payload_authorization_value_mismatch",
  invalid_exact_evm_payload_recipient_mismatch: "invalid_exact_evm_recipient_mismatch",
  invalid_exact_evm_payload_signature: "invalid_exact_evm_signature",
  invalid_network: "invalid_exact_evm_network_mismatch",
  unexpected_settle_error: "invalid_exact_evm_transaction_failed",
};

/** Returns the word for a refused payload of this protocol version. */
export const wordOf = (version: 1 | 2, reason: X402Reason): string =>
  (version === 2 ? VERSION_2[reason] : undefined) ?? reason;
