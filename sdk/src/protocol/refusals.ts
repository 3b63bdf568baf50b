/**
 * Says by the reason of a refused payment whether its money can have moved, for a program that would ask its payer to pay again.
 * A reason that is listed nowhere may follow a transfer. Imports nothing: the payment page's script has it.
 */

/** The payment has bought something, here or elsewhere: it is not to be made again for the same purchase. */
const SPENT: ReadonlySet<string> = new Set([
  "already_used",
  "payment_already_granted",
  "authorization_used",
  "invalid_transaction_state",
  "invalid_exact_evm_nonce_already_used",
]);

/** The transfer may still be mined: Facilitators of other makes name a time-out. */
const PENDING = /^settlement_pending$|time(?:d_)?out$/;

/** A Facilitator has perhaps sent the transfer. */
const UNSURE: ReadonlySet<string> = new Set(["unexpected_settle_error", "invalid_exact_evm_transaction_failed"]);

/** Nothing has moved, and by this payment nothing will. */
const UNMOVED: ReadonlySet<string> = new Set([
  // A gate refuses so before anything is sent.
  "malformed",
  "memo",
  "memo_expired",
  "network",
  "resource",
  "flow",
  "settler",
  "transfer_method",
  "spender",
  "payment_identifier",
  "terms",
  "signature",
  "window",
  "handler_failed",
  // A Facilitator refuses so what it has not accepted.
  "insufficient_funds",
  "invalid_payment_requirements",
  "invalid_exact_evm_insufficient_balance",
  "invalid_exact_evm_signature",
  "invalid_exact_evm_recipient_mismatch",
  "invalid_exact_evm_payload_authorization_value_mismatch",
  "invalid_exact_evm_payload_authorization_valid_after",
  "invalid_exact_evm_payload_authorization_valid_before",
]);

export const hasBought = (reason: string): boolean => SPENT.has(reason);

export const isPending = (reason: string): boolean => PENDING.test(reason);

export const isUnsure = (reason: string): boolean => UNSURE.has(reason);

export const hasMovedNothing = (reason: string): boolean => UNMOVED.has(reason);
