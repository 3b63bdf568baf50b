/** Reasons as the reference's packages of each protocol version name them. */
import type { X402Reason } from "../payments/exact";
import type { Transfer } from "../payments/transfer";

type Words = Readonly<Partial<Record<X402Reason, string>>>;

/** The list of version 1 is closed, and has one word for every used nonce. */
const VERSION_1: Words = { invalid_exact_evm_nonce_already_used: "invalid_transaction_state" };

const VERSION_2: Words = {
  insufficient_funds: "invalid_exact_evm_insufficient_balance",
  invalid_exact_evm_payload_authorization_value: "invalid_exact_evm_payload_authorization_value_mismatch",
  invalid_exact_evm_payload_recipient_mismatch: "invalid_exact_evm_recipient_mismatch",
  invalid_exact_evm_payload_signature: "invalid_exact_evm_signature",
  invalid_network: "invalid_exact_evm_network_mismatch",
  unexpected_settle_error: "invalid_exact_evm_transaction_failed",
};

/** The scheme `upto` has words of its own. Payments over Permit2 have most of them in {@link X402Reason}. */
const UPTO: Words = {
  invalid_network: "invalid_upto_evm_network_mismatch",
  unexpected_settle_error: "invalid_upto_evm_transaction_failed",
};

/**
 * Returns the word for a refused payload of this protocol version; `upto` has version 2 alone. Reasons that are not
 * listed have one word in all.
 */
export function wordOf(version: 1 | 2, reason: X402Reason, transfer?: Transfer): string {
  const words = version === 1 ? VERSION_1 : transfer?.method === "upto" ? UPTO : VERSION_2;
  return words[reason] ?? reason;
}
