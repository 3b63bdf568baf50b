/** Tracks one request while its handler runs: its grant, and what must be settled when it ends. */
import { AsyncLocalStorage } from "node:async_hooks";
import { type ErrorCode, HEADER, isTurnpikeError, MAX_USAGE_RECEIPTS, type TurnpikeError } from "../../protocol";
import { type Allowed, type Answer, answerOf, type Decision, errorAnswer } from "../core/answer";
import type { GateContext } from "../core/context";
import type { DeferredSettlement, Payment, PaymentReport, RefundOnFailure, Refusal } from "../core/payment";
import { PaymentCase } from "../core/payment-case";
import type { GateRequest } from "../core/request";
import type { HeldClaim } from "../purchases/held";
import type { KeptAnswer } from "../replay/fit";
import type { AnswerKeeper } from "../replay/keeper";
import { exhausted } from "../schemes/subscription/judge";
import { SubscriberPayment } from "../schemes/subscription/payment";
import { type GatedRoute, quoteFor } from "./decide";

export interface RequestScope {
  readonly request: GateRequest;
  readonly payment: Payment | undefined;
  /** payments that this request uses up when it is served */
  readonly claims: HeldClaim[];
  /** of a payment that settles after the handler */
  readonly deferred: DeferredSettlement | undefined;
  /** where a failure of the handler is refunded */
  readonly refund: RefundOnFailure | undefined;
  /** how its claims were settled first */
  ending: "use" | "release" | undefined;
  /** seals the answer for clients that lose it, where that is done */
  readonly keeper: AnswerKeeper | undefined;
  /** why the handler could not charge; if it then fails, the client gets this error */
  refused: TurnpikeError | undefined;
  /** in the header of its answer */
  usageReceipts: readonly string[];
  /** called with that error before the handler gets it: an adapter may have to keep its framework from logging it */
  onRefused: ((error: TurnpikeError) => void) | undefined;
  /** called when a claim is added after the beginning */
  onClaim: (() => void) | undefined;
  /** called once with whether the request was served; for counting */
  onEnd: ((how: "use" | "release") => void) | undefined;
}

const NO_RECEIPTS: readonly string[] = [];

const NO_HEADERS: Readonly<Record<string, string>> = {};

export const requestScopes = new AsyncLocalStorage<RequestScope>();

/**
 * Runs `body` in a new scope of an allowed request.
 * @param args passed on: a closure for each request costs more
 */
export function runInScope<T, Args extends unknown[]>(
  request: GateRequest,
  decision: Allowed,
  body: (scope: RequestScope, decision: Allowed, ...args: Args) => T,
  ...args: Args
): T {
  const scope = openRequestScope(request, decision);
  return requestScopes.run(scope, body, scope, decision, ...args);
}

export function openRequestScope(request: GateRequest, decision?: Allowed): RequestScope {
  const scope: RequestScope = {
    request,
    payment: decision?.payment,
    claims: decision?.claim ? [decision.claim] : [],
    deferred: decision?.deferred,
    refund: decision?.refund,
    ending: undefined,
    keeper: decision?.keeper,
    refused: undefined,
    usageReceipts: NO_RECEIPTS,
    onRefused: undefined,
    onClaim: undefined,
    onEnd: decision?.onEnd,
  };
  const payment = decision?.payment;
  if (payment instanceof SubscriberPayment) payment.watch(request, (error) => noteRefusal(scope, error));
  return scope;
}

/** Returns the header of the usage receipts that the answer has to carry: the same one whenever it is asked for. */
export function usageReceiptHeader(scope: RequestScope): Readonly<Record<string, string>> {
  const { payment } = scope;
  if (!(payment instanceof SubscriberPayment)) return NO_HEADERS;
  const fresh = payment.takeReceipts();
  if (fresh.length > 0) scope.usageReceipts = [...scope.usageReceipts, ...fresh].slice(-MAX_USAGE_RECEIPTS);
  return scope.usageReceipts.length === 0 ? NO_HEADERS : { [HEADER.usageReceipt]: scope.usageReceipts.join(", ") };
}

/** Notes an error of the handler that the gate answers itself, where it is one. */
export function noteRefusal(scope: RequestScope, error: unknown): void {
  if (!isTurnpikeError(error) || !CHARGING.has(error.code)) return;
  scope.refused = error;
  scope.onRefused?.(error);
}

/** Errors that the payer or an outage causes, rather than the handler. */
const CHARGING: ReadonlySet<ErrorCode> = new Set([
  "AllowanceExhausted",
  "InsufficientFunds",
  "SubscriptionNotActive",
  "Unavailable",
]);

/**
 * @param answer of "use": kept with the claim, for a client that loses it
 * @returns undefined when there is nothing to write. @throws Unavailable when a claim could not be written
 */
export function settleScope(
  scope: RequestScope,
  how: "use" | "release",
  answer?: KeptAnswer,
): Promise<unknown> | undefined {
  const { onEnd } = scope;
  scope.onEnd = undefined;
  onEnd?.(how);
  const { claims, keeper } = scope;
  if (claims.length === 0) return undefined;
  const sealed = answer && keeper?.seal(answer);
  const keptWith = (claim: HeldClaim) => (claim.paymentId === keeper?.paymentId ? sealed : undefined);
  // The first call decides, as it does for each claim: what was used is not refunded by a later one.
  scope.ending ??= how;
  const refund = scope.ending === "release" ? scope.refund : undefined;
  const endOf = (claim: HeldClaim) => (claim.paymentId === refund?.paymentId ? "refund" : how);
  const settling = Promise.all(claims.map((claim) => claim.settle(endOf(claim), keptWith(claim))));
  // Only a purchase that is closed is refunded: what is served stays paid.
  return refund ? settling.then(() => refund.begin()) : settling;
}

/** A 304 lacks what was paid for, and a 429 is the answer of a rate limiter behind the gate. */
const GIVES_NOTHING: ReadonlySet<number> = new Set([304, 429]);

/**
 * Returns whether an answer of this status gives its payment back: unused, to be presented again, or as a refund.
 */
export function hasFailed({ payment, deferred, refund }: RequestScope, status: number): boolean {
  if (status >= (deferred || refund ? 400 : 500)) return true;
  if (GIVES_NOTHING.has(status) && payment?.kind === "one-time") return true;
  return deferred !== undefined && !deferred.chargesFor(status);
}

/** What becomes of an answer whose payment settles after the handler. */
export type SettledScope =
  /** it may leave, with the headers of this report */
  | { readonly kind: "settled"; readonly report: PaymentReport }
  /** it stays here; this one leaves instead */
  | { readonly kind: "withheld"; readonly answer: Answer };

/** Settles a deferred payment: the handler's answer leaves, or a fresh 402, or a 503, with nothing of that answer. */
export async function settleDeferred(
  context: GateContext,
  route: GatedRoute,
  scope: RequestScope,
  answer: KeptAnswer | undefined,
): Promise<SettledScope> {
  const { deferred, request } = scope;
  const outcome = await deferred?.settle(answer);
  if (outcome === undefined || outcome.kind === "settled") {
    await settleScope(scope, "use");
    return { kind: "settled", report: outcome?.report ?? { headers: {} } };
  }
  if (outcome.kind === "failed") {
    await settleScope(scope, "release");
    return { kind: "withheld", answer: errorAnswer(outcome.cause) };
  }
  const isCounted = scope.onEnd !== undefined;
  scope.onEnd = undefined;
  await settleScope(scope, "release");
  const decision =
    outcome.kind === "refused" ? await quoteFor(new PaymentCase(context, route, request), outcome.refusal) : undefined;
  const error = outcome.kind === "unavailable" ? outcome.cause : undefined;
  if (isCounted) context.reports?.refusedCharge(decision, request, error);
  const isAsked = decision !== undefined && decision.kind !== "allow";
  return { kind: "withheld", answer: isAsked ? answerOf(decision) : errorAnswer(error) };
}

/**
 * Settles a request before its handler runs, because the handler takes the connection over.
 * @returns the answer to send instead of running it
 */
export async function settleAhead(
  { settle }: { readonly settle: (scope: RequestScope, answer: undefined) => Promise<SettledScope> },
  scope: RequestScope,
): Promise<Answer | undefined> {
  try {
    const settled = await settle(scope, undefined);
    return settled.kind === "withheld" ? settled.answer : undefined;
  } catch (error) {
    return errorAnswer(error);
  }
}

/** Ends a request whose handler failed: a deferred payment is released, and costs nothing. */
export async function cancelDeferred(scope: RequestScope): Promise<void> {
  // Where it cannot be written, the lease and the reservation expire.
  const ending = scope.deferred?.cancel().catch(() => undefined);
  await settleScope(scope, "release");
  await ending;
}

/** Withdraws a decision that came too late: no handler ran, and the payment stays unused. Never rejects. */
export async function withdraw(decision: Decision): Promise<void> {
  if (decision.kind !== "allow") return;
  decision.onEnd?.("release");
  // Where it cannot be written, the lease expires.
  await Promise.allSettled([decision.claim?.settle("withdraw"), decision.deferred?.withdraw()]);
}

/**
 * Returns whether a failed response is due to a refused charge, and is to be replaced by that refusal.
 * @param status what the framework made of the error: its own status, or 500
 */
export function isRefusedCharge(scope: RequestScope, status: number): boolean {
  return scope.refused !== undefined && (status === scope.refused.status || status === 500);
}

/** Returns the 402 (or 503) of a charge that the handler could not make. */
export async function answerOfRefusedCharge(
  context: GateContext,
  route: GatedRoute,
  scope: RequestScope,
): Promise<Answer> {
  const error = scope.refused;
  const isCounted = scope.onEnd !== undefined;
  scope.onEnd = undefined;
  if (!error || error.status === 503) {
    if (isCounted) context.reports?.refusedCharge(undefined, scope.request, error);
    return errorAnswer(error);
  }
  const decision = await quoteFor(new PaymentCase(context, route, scope.request), refusalOf(scope, error));
  if (isCounted) context.reports?.refusedCharge(decision, scope.request, error);
  return decision.kind === "allow" ? errorAnswer(error) : answerOf(decision);
}

function refusalOf({ payment }: RequestScope, error: TurnpikeError): Refusal {
  if (error.code !== "AllowanceExhausted" || payment?.kind !== "subscription") {
    return { code: error.code, message: `${error.message} ${error.remedy}` };
  }
  const { plan, allowance, paidThroughSec } = payment;
  return exhausted(plan, {
    cap: allowance.cap,
    spent: allowance.cap,
    debits: 0,
    paidThroughSec,
    version: 0,
    blockNumber: 0,
  });
}
