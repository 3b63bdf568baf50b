/** What clients get besides a challenge: receipts, problems, and errors in place of a challenge that they would pay too. */
import { HEADER, TurnpikeError } from "../../../protocol";
import { CHARGE_METHOD, encodeCanonical } from "../../../protocol/payment-auth";
import { hasBought, hasMovedNothing } from "../../../protocol/refusals";
import type { OneTimePayment, PaymentReport, Refusal } from "../../core/payment";
import type { PaymentAnswers, PaymentCase } from "../../core/payment-case";
import { timeText } from "./challenge";

/** @param challengeId of the credential that is paid by */
export const answersTo = (challengeId: string): PaymentAnswers => ({
  report: (at, payment) => receiptOf(at, payment, challengeId),
  errorFor,
});

function receiptOf(
  { context: { settings, time } }: PaymentCase,
  { transaction }: OneTimePayment,
  challengeId: string,
): PaymentReport {
  if (transaction === undefined) return { headers: {} };
  const receipt = {
    chainId: settings.network.chainId,
    challengeId,
    method: CHARGE_METHOD,
    reference: transaction,
    status: "success",
    timestamp: timeText(time.nowSec()),
  };
  return {
    headers: { [HEADER.paymentReceipt]: encodeCanonical(receipt) },
    headersOfRedirect: {},
    headersOfFailure: {},
  };
}

const PROBLEMS = "https://paymentauth.org/problems/";

const TITLES = {
  "payment-required": "Payment Required",
  "malformed-credential": "Malformed Credential",
  "invalid-challenge": "Invalid Challenge",
  "payment-expired": "Payment Expired",
  "verification-failed": "Verification Failed",
} as const;

type Problem = keyof typeof TITLES;

/** By the reason of a payment that has moved nothing; any other failed its verification. */
const PROBLEM_OF: Readonly<Record<string, Problem>> = {
  malformed: "malformed-credential",
  memo: "invalid-challenge",
  network: "invalid-challenge",
  resource: "invalid-challenge",
  flow: "invalid-challenge",
  settler: "invalid-challenge",
  transfer_method: "invalid-challenge",
  spender: "invalid-challenge",
  payment_identifier: "invalid-challenge",
  memo_expired: "payment-expired",
  window: "payment-expired",
  invalid_exact_evm_payload_authorization_valid_after: "payment-expired",
  invalid_exact_evm_payload_authorization_valid_before: "payment-expired",
};

/** Refusals of a subscription, beside which anyone may pay for one request. */
const OF_SUBSCRIPTIONS: ReadonlySet<string> = new Set([
  "PaymentRequired",
  "SubscriptionNotActive",
  "AllowanceExhausted",
  "InsufficientFunds",
]);

/** @returns undefined where money has moved, or may have: nobody is to be asked to pay again */
function problemOf({ code, reason }: Refusal): Problem | undefined {
  if (OF_SUBSCRIPTIONS.has(code)) return "payment-required";
  if (code !== "InvalidPaymentProof" || reason === undefined || !hasMovedNothing(reason)) return undefined;
  return Object.hasOwn(PROBLEM_OF, reason) ? PROBLEM_OF[reason] : "verification-failed";
}

export const mayPayAgain = (refusal: Refusal): boolean => problemOf(refusal) !== undefined;

/** Returns the members of RFC 9457 that a 402 has. */
export function problemMembers(refusal: Refusal): Readonly<Record<string, unknown>> {
  const problem = problemOf(refusal) ?? "verification-failed";
  return { type: `${PROBLEMS}${problem}`, title: TITLES[problem], status: 402, detail: refusal.message };
}

/** @returns what to answer instead of a 402; undefined where its payer may pay again */
export function errorFor(refusal: Refusal): TurnpikeError | undefined {
  if (mayPayAgain(refusal)) return undefined;
  const { code, reason, message } = refusal;
  const named = reason === undefined ? {} : { reason };
  const isSpent = code === "PaymentAlreadyUsed" || (reason !== undefined && hasBought(reason));
  if (isSpent) return new TurnpikeError("PayloadConflict", message, named);
  return new TurnpikeError("PaymentPending", message, { ...named, retryAfterSec: 2 });
}
