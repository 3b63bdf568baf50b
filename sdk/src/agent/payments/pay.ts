/**
 * Makes one purchase: request, choose, reserve, sign once, settle, present. A payment that was signed before is
 * finished first; a call that has signed or presented never signs again.
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
import { orHeld } from "../core/abort";
import type { AgentContext } from "../core/context";
import type { Amount } from "../core/policy";
import {
  type Arrival,
  bearsCredential,
  bodyHashOf,
  isPrivateChannel,
  isRedirect,
  originAndPath,
  type RequestInput,
  readBounded,
  sendWithinOrigin,
  templateOf,
} from "../core/request";
import type { Purchase } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { type ChosenOption, chooseOption, type PayJob } from "./choose";
import { isOver, isReplaceable } from "./outcome";
import { permitQueueOf } from "./permit2";
import { isSpent, present, rejection } from "./present";
import { freshProofs } from "./proofs";
import { compareOptions, type ParsedQuote, readQuote } from "./quote";
import { type PaidResponse, withReceipt } from "./receipt";
import { settle } from "./settle";
import { type Quoted, signPayment } from "./sign-payment";
import { offerFor, signedOffersOf } from "./signed-statements";
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
 * Requests `input` and pays for it where the provider asks and the policy allows it.
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
  return serializeByKey(job, () => runPurchase(context, job));
}

/** Runs purchases of one key one after the other, so that the second finds what the first has paid. */
export function serializeByKey<T>(job: PayJob, work: () => Promise<T>): Promise<T> {
  return job.key === undefined ? work() : job.ledger.serialize(`purchase:${job.key}:${job.template.url}`, work);
}

export async function payJob(context: AgentContext, input: RequestInput, init: PayInit): Promise<PayJob> {
  const { idempotencyKey, maxAmount, ...requestInit } = init;
  const ledger = await context.ledger();
  const template = await templateOf(input, requestInit);
  const key =
    idempotencyKey === undefined
      ? (template.headers.get(HEADER.idempotencyKey) ?? undefined)
      : await context.roots.purchaseKey(requireKey(idempotencyKey), ledger);
  return {
    ledger,
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
    emitRefusal(context, arrival.template.url, error);
    throw error;
  }
  const outcome = await payQuote(context, { ...job, template: arrival.template }, quote);
  if (outcome.kind === "refused") throw outcome.error;
  return outcome.response;
}

/** Presents an earlier call's payment for exactly this purchase, before anything else is requested. */
export async function finishEarlier(context: AgentContext, job: PayJob): Promise<PaidResponse | undefined> {
  const { ledger, template, key } = job;
  const purchase: Purchase = {
    payer: await context.signer.address(),
    method: template.method,
    resource: template.url,
    bodyHash: bodyHashOf(template),
    key,
  };
  const entry = ledger.lockUnfinished(purchase);
  if (!entry) return undefined;
  try {
    return await finish(context, job, entry, true);
  } finally {
    ledger.unlock(entry.id);
  }
}

/**
 * Settles a payment and presents it.
 * @returns undefined when the payment turned out to be void, so that a new one may be made
 * @throws AbortError that says what the payment's state is
 */
function finish(
  context: AgentContext,
  job: PayJob,
  entry: PaymentEntry,
  resumed: boolean,
): Promise<PaidResponse | undefined> {
  const now = () => job.ledger.payment(entry.id) ?? entry;
  const { closing } = context.effects;
  return orHeld({ signal: job.template.signal, closing, now }, () => settleAndPresent(context, job, entry, resumed));
}

async function settleAndPresent(
  context: AgentContext,
  job: PayJob,
  first: PaymentEntry,
  resumed: boolean,
): Promise<PaidResponse | undefined> {
  const { ledger, template, headers } = job;
  const { signal } = template;
  const fresh = freshProofs(context);
  let entry = first;
  let wasReversed = false;
  for (;;) {
    const settled = await settledEntry(context, job, entry, { resumed, isFirstPost: !resumed && !wasReversed });
    if (!settled) return undefined;
    const isLate = resumed && isOver(context, settled);
    const presented = await present(context, { ledger, entry: settled, template, headers, resumed, isLate });
    if (presented.kind === "answered") return presented.response;
    if (resumed && (await isReplaceable(context, { ledger, entry: settled, presented, isLate }))) return undefined;
    if (presented.kind === "postponed") return presented.response;
    const isReversed = presented.kind === "reversed";
    const isFinal = presented.kind === "rejected" && isSpent(presented.reason);
    const replaced = async () => (isFinal ? undefined : fresh.next(settled, signal));
    const again = isReversed && !wasReversed ? unsettled(settled) : await replaced();
    wasReversed ||= isReversed;
    if (again) {
      entry = again;
      await ledger.put(entry);
    } else if (isReversed) {
      await ledger.put(unsettled(settled));
      throw new PaymentPending(undefined, { reason: "reversed", details: { paymentId: entry.id } });
    } else throw await rejection(context, { ledger, entry: settled, resumed }, presented);
  }
}

function unsettled(entry: PaymentEntry): PaymentEntry {
  const { proof: _reversed, ...kept } = entry;
  return { ...kept, state: "signed" };
}

async function settledEntry(
  context: AgentContext,
  { ledger, template }: PayJob,
  entry: PaymentEntry,
  { resumed, isFirstPost }: { readonly resumed: boolean; readonly isFirstPost: boolean },
): Promise<PaymentEntry | undefined> {
  // The provider settles it, and a gate also accepts after the window what has settled within it.
  if (entry.dialect !== "turnpike") return entry;
  const settlement = await settle(context, { ledger, entry, resumed, signal: template.signal, isFirstPost });
  if (settlement.kind === "settled") return settlement.entry;
  if (resumed) return undefined;
  throw settlement.error;
}

/** Reads what a 402 offers, from its body or, for version 2 of x402, its header. Consumes the body. */
export async function quoteOf(
  context: AgentContext,
  { response, template }: Arrival,
): Promise<ParsedQuote | undefined> {
  const text = await readBounded(context.effects, response);
  const inBody = text === undefined ? undefined : readQuote(text, template.url, context.networks);
  const inHeader = readQuoteHeader(response, template.url, context.networks);
  const quote = combined(inBody, inHeader);
  return quote && { ...quote, signedOffers: await signedOffersOf(response) };
}

/** The body of a gate names what version 1 can pay: payments over Permit2 are in the header alone. */
function combined(inBody: ParsedQuote | undefined, inHeader: ParsedQuote | undefined): ParsedQuote | undefined {
  const more = inHeader?.options.filter(({ method }) => method !== "eip3009") ?? [];
  if (!inBody || more.length === 0) return inBody ?? inHeader;
  return { ...inBody, options: [...inBody.options, ...more].sort(compareOptions) };
}

export type QuoteOutcome =
  | { readonly kind: "paid"; readonly response: PaidResponse }
  /** nothing was signed */
  | { readonly kind: "refused"; readonly error: TurnpikeError };

/** Pays the cheapest option that the policy allows, once. */
export async function payQuote(context: AgentContext, job: PayJob, quote: ParsedQuote): Promise<QuoteOutcome> {
  const { url } = job.template;
  const { options, plans, offers } = quote;
  const named = new Set([...plans, ...offers].map(({ planId }) => planId));
  const counts = { amount: options[0]?.amount, options: options.length, plans: named.size };
  context.effects.emit({ type: "payment.quoted", resource: originAndPath(url), ...counts });
  const outcome = await payOnce(context, job, quote);
  if (outcome.kind === "refused") emitRefusal(context, url, outcome.error);
  return outcome;
}

/** Emits that nothing was paid, and why. */
function emitRefusal(context: AgentContext, url: string, { code, reason }: TurnpikeError): void {
  context.effects.emit({ type: "payment.refused", resource: originAndPath(url), code, reason });
}

async function payOnce(context: AgentContext, job: PayJob, quote: ParsedQuote): Promise<QuoteOutcome> {
  const { ledger, template } = job;
  const quotedAtSec = context.effects.clock.nowSec();
  if (!context.policy.allowHttp && !isPrivateChannel(template.url)) {
    const message = "The agent pays only over https (this machine aside); policy.allowHttp allows more.";
    return { kind: "refused", error: new PolicyRefused(message, { reason: "insecure_origin" }) };
  }
  // After a redirect within the origin the purchase has another URL, under which an earlier payment may exist.
  const earlier = await finishEarlier(context, job);
  if (earlier) return { kind: "paid", response: earlier };

  let chosen: ChosenOption;
  let queue: string | undefined;
  try {
    chosen = await chooseOption(context, job, quote);
    queue = await permitQueueOf(context, chosen.option);
  } catch (error) {
    return unsigned(context, template.url, error);
  }
  const signedOffer = offerFor(context, quote.signedOffers, chosen.option);
  const work = () => payChosen(context, job, chosen, { quotedAtSec, signedOffer });
  return queue === undefined ? work() : ledger.serialize(queue, work);
}

/** Returns the policy's refusal. @throws every other error, of which an event is emitted */
function unsigned(context: AgentContext, url: string, error: unknown): QuoteOutcome {
  if (error instanceof PolicyRefused) return { kind: "refused", error };
  if (isTurnpikeError(error)) emitRefusal(context, url, error);
  throw error;
}

/** Signs what was chosen, and presents it. */
async function payChosen(
  context: AgentContext,
  job: PayJob,
  chosen: ChosenOption,
  quoted: Quoted,
): Promise<QuoteOutcome> {
  let entry: PaymentEntry;
  try {
    entry = await signPayment(context, job, chosen, quoted);
  } catch (error) {
    return unsigned(context, job.template.url, error);
  }
  try {
    const response = await finish(context, job, entry, false);
    return response
      ? { kind: "paid", response }
      : {
          kind: "refused",
          error: new PolicyRefused("The payment can move no money any more; repeat the call to pay again.", {
            reason: "dead",
          }),
        };
  } finally {
    job.ledger.unlock(entry.id);
  }
}
