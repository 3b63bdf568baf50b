/**
 * One request to one route: what is computed of it, each of it once, and how the payment that it presents is claimed, then
 * confirmed, or its claim withdrawn.
 */
import { concatBytes, type Hex, InvalidRequest, sha256, TurnpikeError, toHex, utf8ToBytes } from "../../protocol";
import { METHOD_REFUSALS } from "../methods";
import { type HeldClaim, holdClaim } from "../purchases/held";
import { MAX_RELEASES } from "../purchases/record";
import { type Fitted, fitAnswer, type KeptAnswer } from "../replay/fit";
import { type AnswerKeeper, findServed, keeperOf, type Purchased, type ReplaySecret } from "../replay/keeper";
import type { GateContext } from "./context";
import {
  type DeferredSettlement,
  type OneTimePayment,
  type PaymentReport,
  type RefundOnFailure,
  type RefundState,
  type Refusal,
  refundOnFailureOf,
} from "./payment";
import type { GateRequest } from "./request";
import { type Origin, quotedMethod, resourceOfRequest } from "./resource";
import { isAuthorized, type Route } from "./route";

export class PaymentCase<R extends Route = Route> {
  readonly route: R;
  readonly request: GateRequest;
  /** in which its payment is judged */
  readonly context: GateContext;
  #origin: Origin;
  #resource: string | undefined;
  #quotedMethod: string | undefined;
  #bodyHash: string | undefined;
  #body: Uint8Array | undefined;

  /** @param known the same request, where its payment is judged in another context */
  constructor(context: GateContext, route: R, request: GateRequest, known?: PaymentCase<R>) {
    this.context = context;
    this.route = route;
    this.request = request;
    this.#origin = context.settings;
    if (!known) return;
    this.#origin = known.#origin;
    this.#resource = known.#resource;
    this.#quotedMethod = known.#quotedMethod;
    this.#bodyHash = known.#bodyHash;
    this.#body = known.#body;
  }

  in(context: GateContext): PaymentCase<R> {
    return context === this.context ? this : new PaymentCase(context, this.route, this.request, this);
  }

  /** What it asks for. @throws InvalidRequest for a target with two readings; ConfigError without a public address */
  get resource(): string {
    this.#resource ??= resourceOfRequest(this.request, this.#origin);
    return this.#resource;
  }

  /** Its method, as quotes bind it. */
  get quotedMethod(): string {
    this.#quotedMethod ??= quotedMethod(this.request, this.#origin);
    return this.#quotedMethod;
  }

  /** hex SHA-256, once `hashBody` has read it; undefined where the route binds no bodies */
  get bodyHash(): string | undefined {
    return this.#bodyHash;
  }

  /** the bytes that `bodyHash` covers */
  get body(): Uint8Array | undefined {
    return this.#body;
  }

  /** Hashes the body with its content type and encoding: the same bytes under another type may be another request. */
  async hashBody(): Promise<void> {
    if (!this.route.bindsBody || this.#bodyHash !== undefined) return;
    const { request } = this;
    const bytes = await request.body(this.route.maxBodyBytes);
    this.#body = bytes;
    const readAs = utf8ToBytes(
      `${request.header("content-type") ?? ""}\n${request.header("content-encoding") ?? ""}\n`,
    );
    this.#bodyHash = toHex(sha256(concatBytes(readAs, bytes)));
  }
}

/** How the answers to a purchase speak of its payment. */
export interface PaymentAnswers {
  report(at: PaymentCase, payment: OneTimePayment): PaymentReport | Promise<PaymentReport>;
  /**
   * Returns what to answer instead of a 402, for clients that would pay a second time where money has moved or may have.
   * Absent, or undefined: a 402 that gives the reason. A reason that a dialect does not know may follow a transfer.
   */
  errorFor?(refusal: Refusal): TurnpikeError | undefined;
}

export interface GrantedPayment extends PaymentReport {
  readonly kind: "grants";
  readonly payment: OneTimePayment;
  /** undefined where `deferred` has it */
  readonly claim: HeldClaim | undefined;
  /** of a payment that settles after its handler */
  readonly deferred?: DeferredSettlement;
  /** seals the answer for the claim store; undefined where none is kept */
  readonly keeper: AnswerKeeper | undefined;
  /** where a failure of the handler is refunded */
  readonly refund?: RefundOnFailure;
}

export type PaymentVerdict =
  | GrantedPayment
  /** the payment has bought its request before; its kept answer. settled: by this request, so that it is counted here */
  | { readonly kind: "replay"; readonly answer: KeptAnswer; readonly cors: boolean; readonly settled?: OneTimePayment }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  /** neither paid nor unpaid: in use elsewhere (409), or not for this payer (403) */
  | { readonly kind: "barred"; readonly error: TurnpikeError }
  | { readonly kind: "unavailable"; readonly cause: TurnpikeError };

interface Purchase {
  readonly payment: OneTimePayment;
  /** needed to replay the answer; undefined: the answer is not replayed */
  readonly secret: ReplaySecret | undefined;
}

export interface Candidate extends Purchase {
  readonly dialect: PaymentAnswers;
  readonly keepUntilSec: number;
  readonly nowSec: number;
  /**
   * Has the claimed payment settled, or reserved. The claim is withdrawn where it throws.
   * @throws Unavailable when the outcome is unknown
   */
  readonly confirm: (claim: HeldClaim) => Promise<PaymentVerdict>;
}

/** Claims first, then settles: of many equal requests one settles, and a used payment needs no settlement. */
export async function claimPayment(at: PaymentCase, candidate: Candidate): Promise<PaymentVerdict> {
  const { context, route, request } = at;
  const { payment, keepUntilSec, nowSec } = candidate;
  if (route.authorize && !(await isAuthorized(route, payment, request))) {
    return { kind: "barred", error: new TurnpikeError("AccessRefused") };
  }
  const { paymentId } = payment;
  const attempt = await holdClaim({ store: context.claims, paymentId, keepUntilSec, nowSec, nowMs: Date.now });
  if (attempt.kind === "used") {
    if (attempt.isForRefund) return verdictOfRefund(context, paymentId);
    const mayHaveAnswer = purchasedBy(at, candidate) !== undefined;
    return (mayHaveAnswer && (await verdictOfUsed(at, candidate))) || ALREADY_USED;
  }
  if (attempt.kind === "running") {
    const { retryAfterSec } = attempt;
    return {
      kind: "barred",
      error: new TurnpikeError("ProofInFlight", undefined, { retryAfterSec, details: { paymentId } }),
    };
  }
  const { claim } = attempt;
  try {
    return await candidate.confirm(claim);
  } catch (error) {
    await claim.settle("withdraw");
    throw error;
  }
}

/** Withdraws the claim of a payment that is refused after all. */
export async function withdrawClaim(claim: HeldClaim, reason: string): Promise<PaymentVerdict> {
  await claim.settle("withdraw");
  return invalid(reason, messageOf(reason));
}

/** A claimed payment as it has settled. */
interface SettledPurchase extends Purchase {
  readonly dialect: PaymentAnswers;
  readonly claim: HeldClaim;
}

/** Grants a payment that has settled before its handler; a failure is refunded where the route says so. */
export async function grantRefundable(at: PaymentCase, settled: SettledPurchase): Promise<PaymentVerdict> {
  const { context, route } = at;
  const { payment, claim } = settled;
  const granted = await grantSettled(at, settled);
  if (!route.refundOnFailure) return granted;
  if (claim.releases < MAX_RELEASES) return { ...granted, refund: refundOnFailureOf(context, payment) };
  // Every process that ran its handler has died: nothing was served.
  await claim.settle("refund");
  return verdictOfRefund(context, payment.paymentId);
}

/** Grants a payment that has settled before its handler; a failure is not refunded. */
export async function grantSettled(at: PaymentCase, settled: SettledPurchase): Promise<GrantedPayment> {
  const { payment, claim, dialect } = settled;
  return { kind: "grants", payment, claim, keeper: keeperFor(at, settled), ...(await dialect.report(at, payment)) };
}

/**
 * Judges a payment whose window is over, and which may have bought its request before.
 * @returns undefined when it is not known to be used
 */
export async function verdictOfLate(at: PaymentCase, purchase: Purchase): Promise<PaymentVerdict | undefined> {
  const { route, request } = at;
  const verdict = await verdictOfUsed(at, purchase);
  if (verdict?.kind !== "replay" || !route.authorize) return verdict;
  if (await isAuthorized(route, purchase.payment, request)) return verdict;
  return { kind: "barred", error: new TurnpikeError("AccessRefused") };
}

/**
 * Finds the answer to a payment that has bought its request: the same one again where it was kept and the request holds
 * its secret. Runs no handler and sends nothing.
 */
async function verdictOfUsed(at: PaymentCase, candidate: Purchase): Promise<PaymentVerdict | undefined> {
  const { context, route } = at;
  const { paymentId } = candidate.payment;
  const purchased = purchasedBy(at, candidate);
  const gateKeys = context.settings.memoKeys;
  const served = await findServed({ store: context.claims, paymentId, purchased, gateKeys, nowMs: Date.now() });
  if (served?.kind === "refund") return verdictOfRefund(context, paymentId);
  if (served?.kind !== "answer") return served && ALREADY_USED;
  const found = await fitAnswer(served.answer, at.request);
  if (found.kind === "unfit") return barredAs(found);
  return { kind: "replay", answer: found.answer, cors: route.cors !== false };
}

/** No 402: the payment is good for the request as it was, and no other would help. */
export const barredAs = ({ message }: Extract<Fitted, { kind: "unfit" }>): PaymentVerdict => ({
  kind: "barred",
  error: new InvalidRequest(message),
});

/** A payment whose purchase is closed: asks for its refund again, so that nothing is lost with a process. */
async function verdictOfRefund({ refunds }: GateContext, paymentId: Hex): Promise<PaymentVerdict> {
  const state = await refunds.ask(paymentId);
  const reason = state === "settled" ? "refunded" : "refund_pending";
  const message = `The request that this payment was for has failed, and it buys nothing more: ${REFUNDS[state]}`;
  return { kind: "refused", refusal: { code: "PaymentAlreadyUsed", reason, message } };
}

const REFUNDS: Readonly<Record<RefundState, string>> = {
  settled: "it is refunded. Pay a fresh quote.",
  pending: "its refund is under way. Pay a fresh quote, or repeat the request to see the refund.",
  refused: "the provider refunds it by hand, or has done so. Ask the provider before you pay again.",
};

export const ALREADY_USED: PaymentVerdict = {
  kind: "refused",
  refusal: {
    code: "PaymentAlreadyUsed",
    reason: "already_used",
    message:
      "This payment has bought its request, and its answer is not available: do not pay again for the same purchase. Repeat the request as it was, with its Idempotency-Key or payment-identifier, or ask the provider.",
  },
};

export function keeperFor(at: PaymentCase, candidate: Purchase): AnswerKeeper | undefined {
  const { request, context } = at;
  const { replay: limits, memoKeys } = context.settings;
  const purchased = purchasedBy(at, candidate);
  return purchased && limits && keeperOf({ purchased, request, limits, gateKey: memoKeys[0], nowMs: Date.now });
}

function purchasedBy(at: PaymentCase, { payment, secret }: Purchase): Purchased | undefined {
  const isKept = at.route.replays && at.context.settings.replay;
  return isKept && secret ? purchasedIn(at, { paymentId: payment.paymentId, secret }) : undefined;
}

/** Returns what an answer that is kept was the answer to. */
export const purchasedIn = (
  { request: { method }, resource, bodyHash }: PaymentCase,
  { paymentId, secret }: Pick<Purchased, "paymentId" | "secret">,
): Purchased => ({ secret, paymentId, method, resource, bodyHash });

export function invalid(reason: string, message: string): PaymentVerdict {
  return { kind: "refused", refusal: { code: "InvalidPaymentProof", reason, message } };
}

const MESSAGES: Readonly<Record<string, string>> = {
  ...METHOD_REFUSALS,
  network: "The proof is of another network.",
  resource: "The proof was made for another resource: URL, query included, must be the one that was quoted.",
  expired: "The proof has expired.",
  memo: "The proof's memo was not issued for this method, resource, price, token and payee.",
  memo_expired: "The payment settled after its quote had expired.",
  facilitator: "The proof was signed by a Facilitator that this provider does not trust.",
  signer_retired: "The proof's signer is retired: post the same authorization to the Facilitator for a fresh proof.",
  refunded: "The payment is refunded: it buys nothing. Pay a fresh quote.",
  signature: "The proof's signature is not its Facilitator's.",
  not_settled: "The chain does not show this payment: repeat the request with the same proof before paying again.",
  payment_already_granted:
    "This payment belongs to another request, or came first with another Idempotency-Key or payment-identifier: repeat the request exactly as it was sent first, before paying again.",
  authorization_used:
    "This authorization was used before it was presented here: look for its answer where it was presented first.",
  handler_failed: "Every attempt to answer this payment has failed, and it was not charged: pay a fresh quote.",
  reversed: "The chain gave up the block that held this payment; post the same authorization again.",
};

export const messageOf = (reason: string): string =>
  MESSAGES[reason] ?? "The payment was not accepted. Check whether it has moved money before you pay a fresh quote.";
