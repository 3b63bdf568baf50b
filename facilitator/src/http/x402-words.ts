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

/** The scheme `upto` has words of its own. Payments over Permit2 have most of them in {@link X402Reason}. */
const UPTO: Readonly<Partial<Record<X402Reason, string>>> = {
  invalid_network: "invalid_upto_evm_network_mismatch",
  unexpected_settle_error: "invalid_upto_evm_transaction_failed",
};

/** Returns the word for a refused payload of this protocol version; `upto` has version 2 alone. */
export function wordOf(version: 1 | 2, reason: X402Reason, transfer?: Transfer): string {
  const words = transfer?.method === "upto" ? UPTO : VERSION_2;
  return (version === 2 ? words[reason] : undefined) ?? reason;
}
