/** One request while its handler runs: what it was granted, what must be settled when it ends. */
import { AsyncLocalStorage } from "node:async_hooks";
import { type ErrorCode, isTurnpikeError, type TurnpikeError } from "../../protocol";
import type { HeldClaim } from "../claims/held-claim";
import type { AnswerKeeper } from "../replay/keeper";
import type { KeptAnswer } from "../replay/kept-answer";
import { type Answer, answerOf, type Decision, errorAnswer } from "./answer";
import type { Room } from "./context";
import { quoteFor } from "./decide";
import { exhausted } from "./judge-subscription";
import type { Payment } from "./payment";
import type { Refusal } from "./quote";
import type { GateRequest } from "./request";
import type { Route } from "./route";
import { SubscriberPayment } from "./subscriber-payment";

export interface Visit {
  readonly request: GateRequest;
  readonly payment: Payment | undefined;
  /** payments that this request uses up when it is served */
  readonly claims: HeldClaim[];
  /** seals the answer for clients that lose it, where that is done */
  readonly keeper: AnswerKeeper | undefined;
  /** Why the handler could not charge; if it then fails, this is what the client is told. */
  refused: TurnpikeError | undefined;
  /** Told of that error before the handler sees it: a framework may have to be kept from logging it. */
  onRefused: ((error: TurnpikeError) => void) | undefined;
  /** Told when a claim is held that was not at the beginning. */
  onClaim: (() => void) | undefined;
  /** Told once whether the request was served; for counting. */
  onEnd: ((how: "use" | "release") => void) | undefined;
}

export const visits = new AsyncLocalStorage<Visit>();

export function openVisit(request: GateRequest, decision?: Extract<Decision, { kind: "allow" }>): Visit {
  const visit: Visit = {
    request,
    payment: decision?.payment,
    claims: decision?.claim ? [decision.claim] : [],
    keeper: decision?.keeper,
    refused: undefined,
    onRefused: undefined,
    onClaim: undefined,
    onEnd: decision?.onEnd,
  };
  const payment = decision?.payment;
  if (payment instanceof SubscriberPayment) payment.watch((error) => noteRefusal(visit, error));
  return visit;
}

function noteRefusal(visit: Visit, error: unknown): void {
  if (!isTurnpikeError(error) || !CHARGING.has(error.code)) return;
  visit.refused = error;
  visit.onRefused?.(error);
}

/** What the payer or the outage stands behind, rather than the handler. */
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
export function settleVisit(visit: Visit, how: "use" | "release", answer?: KeptAnswer): Promise<unknown> | undefined {
  const { onEnd } = visit;
  visit.onEnd = undefined;
  onEnd?.(how);
  const { claims, keeper } = visit;
  if (claims.length === 0) return undefined;
  const sealed = answer && keeper?.seal(answer);
  const keptWith = (claim: HeldClaim) => (claim.paymentId === keeper?.paymentId ? sealed : undefined);
  return Promise.all(claims.map((claim) => claim.settle(how, keptWith(claim))));
}

/**
 * Whether a failed response stands for a charge that was refused, and is to be told as that.
 * @param status what the framework made of the error: its own status, or 500
 */
export function isRefusedCharge(visit: Visit, status: number): boolean {
  return visit.refused !== undefined && (status === visit.refused.status || status === 500);
}

/** The 402 (or 503) of a charge that the handler could not make. */
export async function answerOfRefusedCharge(room: Room, route: Route, visit: Visit): Promise<Answer> {
  const error = visit.refused;
  const isCounted = visit.onEnd !== undefined;
  visit.onEnd = undefined;
  if (!error || error.status === 503) {
    if (isCounted) room.reports?.refusedCharge(undefined, visit.request, error);
    return errorAnswer(error);
  }
  const decision = await quoteFor(room, route, visit.request, refusalOf(visit, error));
  if (isCounted) room.reports?.refusedCharge(decision, visit.request, error);
  return decision.kind === "allow" ? errorAnswer(error) : answerOf(decision);
}

function refusalOf({ payment }: Visit, error: TurnpikeError): Refusal {
  if (error.code !== "AllowanceExhausted" || payment?.kind !== "subscription") {
    return { code: error.code, message: `${error.message} ${error.remedy}` };
  }
  const { plan, allowance, paidThroughSec } = payment;
  return exhausted(plan, { cap: allowance.cap, spent: allowance.cap, debits: 0, paidThroughSec, blockNumber: 0 });
}
