/** Outcomes of payment requests, and the refusals that follow from a row of the payment. */
import { isErrorCode, isTurnpikeError, TurnpikeError } from "turnpike/protocol";
import type { PaymentRow } from "../db/tables/payments";
import { type PaymentRequest, refusal } from "./payment-request";
import { transferColumns } from "./transfer";

/** Outcome of a request, through either channel. */
export type PaymentOutcome =
  | { readonly kind: "settled"; readonly row: PaymentRow }
  | { readonly kind: "pending" }
  | { readonly kind: "failed"; readonly error: TurnpikeError }
  | { readonly kind: "refused"; readonly error: TurnpikeError; readonly liveUntilSec?: number };

/** Returns whether the row was bound to these signed bytes: another window has another signature. */
export const hasSignature = (row: PaymentRow, { signature, authorization }: PaymentRequest): boolean =>
  row.signature === signature.toLowerCase() &&
  BigInt(row.valid_after) === authorization.validAfter &&
  BigInt(row.valid_before) === authorization.validBefore;

/** Returns an error when the row was bound to something other than this request asks for. */
export function conflictWith(row: PaymentRow, request: PaymentRequest): TurnpikeError | undefined {
  // A failed payment may be replaced through another channel, but a refund never becomes a payment.
  if (row.state === "failed" && (row.door !== "refund" || request.channel === "refund")) return undefined;
  const isAdopted = request.channel === "refund" && row.door === "settle";
  if (row.door !== request.channel && !isAdopted)
    return refusal("PayloadConflict", "other_door", "this payment was accepted through another channel");
  const isSame =
    (isAdopted || row.resource_hash === request.resourceHash) &&
    row.pay_to === request.authorization.to &&
    row.method === request.transfer.method &&
    row.permitted === transferColumns(request.transfer).permitted &&
    row.amount === request.authorization.value.toString();
  if (isSame) return undefined;
  return refusal(
    "PayloadConflict",
    "other_contents",
    "this payment was accepted with another payee, amount or resource",
  );
}

export const alreadyGranted = (): TurnpikeError =>
  refusal("PayloadConflict", "granted", "this payment is already granted to another purchase");

/** The refusal of a payment whose money is on the chain, but not available. */
export const otherPaymentsNeedIt = (): TurnpikeError =>
  refusal("InsufficientFunds", "funds", "the payer's pending and reserved payments leave too little for this one");

export function failureOf(row: PaymentRow): TurnpikeError {
  const code = isErrorCode(row.fail_code) ? row.fail_code : "PaymentExpired";
  const reason = row.fail_reason ?? "expired";
  const why = FAILURES[reason];
  return new TurnpikeError(code, why && `${why}, in transaction ${row.tx_hash}`, { reason });
}

/** What the chain showed; an expired payment has no transaction. */
const FAILURES: Readonly<Record<string, string | undefined>> = {
  cancelled: "the payer cancelled the authorization before it moved money",
  nonce_spent_elsewhere: "the nonce moved another amount or to another account",
  settled_before_acceptance: "the authorization moved the money before it was presented here",
};

/** Returns the refusal that an expected error means. @throws any other error */
export function refusedBy(error: unknown): PaymentOutcome {
  if (isTurnpikeError(error)) return { kind: "refused", error };
  throw error;
}
