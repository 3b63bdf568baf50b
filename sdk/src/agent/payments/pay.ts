/**
 * One purchase: ask, choose, reserve, sign once, settle, present. Whatever was signed before is finished first; a call
 * that has signed or presented never signs again.
 */
import {
  HEADER,
  InvalidRequest,
  isTurnpikeError,
  PaymentPending,
  PolicyRefused,
  type TurnpikeError,
  toAmount,
} from "../../protocol";
import { orHeld } from "../core/aborted";
import type { AgentContext } from "../core/context";
import type { Amount } from "../core/policy";
import {
  type Arrival,
  bearsCredential,
  bodyHashOf,
  isPrivateChannel,
  isRedirect,
  placeOf,
  type RequestInput,
  readBounded,
  sendWithinOrigin,
  templateOf,
} from "../core/request";
import type { Purchase } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { type ChosenOption, chooseOption, type PayJob } from "./choose";
import { freshProofs } from "./fetch-proof";
import { isOver, isReplaceable } from "./late";
import { isSpent, present, rejection } from "./present";
import { type Quote, readQuote } from "./quote";
import { type PaidResponse, withReceipt } from "./receipt";
import { settle } from "./settle";
import { signPayment } from "./sign-payment";
import { readQuoteHeader } from "./standard";

/** As `fetch` takes it, and what may be paid. */
export interface PayInit extends RequestInit {
  /**
   * Names the purchase, 1 to 256 characters. The same key never pays twice for the same request, also when the agent
   * has lost everything but its wallet: the token itself refuses.
   */
  readonly idempotencyKey?: string;
  /** the most that this call may pay, base units */
  readonly maxAmount?: Amount;
}

/**
 * Requests `input` and pays for it where that is asked and allowed.
 * @returns the provider's response, with its receipt when it was paid for
 * @throws PolicyRefused when nothing that is offered may be paid; nothing was signed
 * @throws PaymentPending when a payment's outcome is unknown; the next call presents the same one
 * @throws PaymentAlreadyUsed when the payment has bought its request and the provider holds no answer to replay
 * @throws InvalidPaymentProof when the provider keeps rejecting the payment that was made
 * @throws AbortError when its signal aborts: `message` says whether anything was signed, and what to do
 */
export async function pay(context: AgentContext, input: RequestInput, init: PayInit = {}): Promise<PaidResponse> {
  const job = await payJob(context, input, init);
  if (bearsCredential(job.template)) throw new InvalidRequest("The request already bears a payment or subscription.");
  return inTurnOfKey(job, () => runPurchase(context, job));
}

/** Purchases of one key queue up, so that the second finds what the first has paid. */
export function inTurnOfKey<T>(job: PayJob, work: () => Promise<T>): Promise<T> {
  return job.key === undefined ? work() : job.book.inTurn(`purchase:${job.key}:${job.template.url}`, work);
}

export async function payJob(context: AgentContext, input: RequestInput, init: PayInit): Promise<PayJob> {
  const { idempotencyKey, maxAmount, ...requestInit } = init;
  const book = await context.book();
  const template = await templateOf(input, requestInit);
  const key =
    idempotencyKey === undefined
      ? (template.headers.get(HEADER.idempotencyKey) ?? undefined)
      : await context.roots.purchaseKey(requireKey(idempotencyKey), book);
  return {
    book,
    template,
    headers: key === undefined ? {} : { [HEADER.idempotencyKey]: key },
    key,
    maxAmount: maxAmount === undefined ? undefined : toAmount(maxAmount, "maxAmount"),
  };
}

function requireKey(key: string): string {
  if (typeof key === "string" && key.length >= 1 && key.length <= 256) return key;
  throw new InvalidRequest("idempotencyKey must be 1 to 256 characters long.");
}

async function runPurchase(context: AgentContext, job: PayJob): Promise<PaidResponse> {
  const unfinished = await finishEarlier(context, job);
  if (unfinished) return unfinished;
  const arrival = await sendWithinOrigin(context.effects, job.template, job.headers);
  if (isRedirect(arrival.response) && job.template.redirect === "follow") {
    await arrival.response.body?.cancel();
    throw new PolicyRefused("The provider redirects to another origin; the agent does not pay there.", {
      reason: "redirect",
    });
  }
  if (arrival.response.status !== 402) return withReceipt(arrival.response, undefined);
  const quote = await quoteOf(context, arrival);
  if (!quote) {
    const message = "The provider asks for payment without terms that can be understood.";
    const error = new PolicyRefused(message, { reason: "quote" });
    tellRefusal(context, arrival.template.url, error);
    throw error;
  }
  const outcome = await payQuote(context, { ...job, template: arrival.template }, quote);
  if (outcome.kind === "refused") throw outcome.error;
  return outcome.response;
}

/** A payment of an earlier call for exactly this purchase is presented before anything else is asked. */
export async function finishEarlier(context: AgentContext, job: PayJob): Promise<PaidResponse | undefined> {
  const { book, template, key } = job;
  const purchase: Purchase = {
    payer: await context.signer.address(),
    method: template.method,
    resource: template.url,
    bodyHash: bodyHashOf(template),
    key,
  };
  const entry = book.takeUnfinished(purchase);
  if (!entry) return undefined;
  try {
    return await finish(context, job, entry, true);
  } finally {
    book.leave(entry.id);
  }
}

/**
 * @returns undefined when the payment turned out to be worthless, so that a fresh one may be made
 * @throws AbortError that says what the payment's state is
 */
function finish(
  context: AgentContext,
  job: PayJob,
  entry: PaymentEntry,
  resumed: boolean,
): Promise<PaidResponse | undefined> {
  const now = () => job.book.payment(entry.id) ?? entry;
  const { closing } = context.effects;
  return orHeld({ signal: job.template.signal, closing, now }, () => settleAndPresent(context, job, entry, resumed));
}

async function settleAndPresent(
  context: AgentContext,
  job: PayJob,
  first: PaymentEntry,
  resumed: boolean,
): Promise<PaidResponse | undefined> {
  const { book, template, headers } = job;
  const { signal } = template;
  const fresh = freshProofs(context);
  let entry = first;
  let wasReversed = false;
  for (;;) {
    const settled = await settledEntry(context, job, entry, { resumed, isFirstPost: !resumed && !wasReversed });
    if (!settled) return undefined;
    const isLate = resumed && isOver(context, settled);
    const presented = await present(context, { book, entry: settled, template, headers, resumed, isLate });
    if (presented.kind === "answered") return presented.response;
    if (resumed && (await isReplaceable(context, { book, entry: settled, presented, isLate }))) return undefined;
    if (presented.kind === "postponed") return presented.response;
    const isReversed = presented.kind === "reversed";
    const isFinal = presented.kind === "rejected" && isSpent(presented.reason);
    const replaced = async () => (isFinal ? undefined : fresh.next(settled, signal));
    const again = isReversed && !wasReversed ? unsettled(settled) : await replaced();
    wasReversed ||= isReversed;
    if (again) {
      entry = again;
      await book.put(entry);
    } else if (isReversed) {
      await book.put(unsettled(settled));
      throw new PaymentPending(undefined, { reason: "reversed", details: { paymentId: entry.id } });
    } else throw await rejection(context, { book, entry: settled, resumed }, presented);
  }
}

function unsettled(entry: PaymentEntry): PaymentEntry {
  const { proof: _reversed, ...kept } = entry;
  return { ...kept, state: "signed" };
}

async function settledEntry(
  context: AgentContext,
  { book, template }: PayJob,
  entry: PaymentEntry,
  { resumed, isFirstPost }: { readonly resumed: boolean; readonly isFirstPost: boolean },
): Promise<PaymentEntry | undefined> {
  // The provider settles it, and a gate also redeems after the window what has settled within it.
  if (entry.dialect !== "turnpike") return entry;
  const settlement = await settle(context, { book, entry, resumed, signal: template.signal, isFirstPost });
  if (settlement.kind === "settled") return settlement.entry;
  if (resumed) return undefined;
  throw settlement.error;
}

/** What a 402 offers, from its body or, for version 2 of x402, its header. Consumes the body. */
export async function quoteOf(context: AgentContext, { response, template }: Arrival): Promise<Quote | undefined> {
  const text = await readBounded(context.effects, response);
  const inBody = text === undefined ? undefined : readQuote(text, template.url, context.networks);
  return inBody ?? readQuoteHeader(response, template.url, context.networks);
}

export type QuoteOutcome =
  | { readonly kind: "paid"; readonly response: PaidResponse }
  /** nothing was signed */
  | { readonly kind: "refused"; readonly error: TurnpikeError };

/** Pays the cheapest option that the policy allows, once. */
export async function payQuote(context: AgentContext, job: PayJob, quote: Quote): Promise<QuoteOutcome> {
  const { url } = job.template;
  const { options, plans, offers } = quote;
  const named = new Set([...plans, ...offers].map(({ planId }) => planId));
  const counts = { amount: options[0]?.amount, options: options.length, plans: named.size };
  context.effects.emit({ type: "payment.quoted", resource: placeOf(url), ...counts });
  const outcome = await payOnce(context, job, quote);
  if (outcome.kind === "refused") tellRefusal(context, url, outcome.error);
  return outcome;
}

/** Nothing was signed, or nothing was taken on. */
function tellRefusal(context: AgentContext, url: string, { code, reason }: TurnpikeError): void {
  context.effects.emit({ type: "payment.refused", resource: placeOf(url), code, reason });
}

async function payOnce(context: AgentContext, job: PayJob, quote: Quote): Promise<QuoteOutcome> {
  const { book, template } = job;
  const quotedAtSec = context.effects.clock.nowSec();
  if (!context.policy.allowHttp && !isPrivateChannel(template.url)) {
    const message = "The agent pays only over https (this machine aside); policy.allowHttp allows more.";
    return { kind: "refused", error: new PolicyRefused(message, { reason: "insecure_origin" }) };
  }
  // After a redirect within the origin the purchase has another URL, under which an earlier payment may stand.
  const earlier = await finishEarlier(context, job);
  if (earlier) return { kind: "paid", response: earlier };

  let chosen: ChosenOption;
  let entry: PaymentEntry;
  try {
    chosen = await chooseOption(context, job, quote);
    entry = await signPayment(context, job, chosen, quotedAtSec);
  } catch (error) {
    if (error instanceof PolicyRefused) return { kind: "refused", error };
    if (isTurnpikeError(error)) tellRefusal(context, template.url, error);
    throw error;
  }
  try {
    const response = await finish(context, job, entry, false);
    return response
      ? { kind: "paid", response }
      : { kind: "refused", error: new PolicyRefused("The payment turned out to be worthless.", { reason: "dead" }) };
  } finally {
    book.leave(entry.id);
  }
}
