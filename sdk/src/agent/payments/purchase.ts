/**
 * Makes one purchase over any channel: choose, reserve, sign once, settle, present. A payment that was signed before is
 * finished first; a call that has signed or presented never signs again.
 */
import { InvalidRequest, isTurnpikeError, PaymentPending, PolicyRefused, type TurnpikeError } from "../../protocol";
import { orHeld } from "../core/abort";
import type { AgentContext } from "../core/context";
import type { AgentLedger, Purchase } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { isOver } from "./authorization-outcome";
import type { PayJob } from "./channel";
import { type ChosenOption, chooseOption } from "./choose";
import { methodOf } from "./methods";
import { isReplaceable } from "./outcome";
import { isSpent, present, rejection } from "./present";
import { freshProofs } from "./proofs";
import type { ParsedQuote } from "./quote";
import { receiptFor } from "./receipt";
import { settle } from "./settle";
import { type Quoted, signPayment } from "./sign-payment";
import { offerFor } from "./signed-statements";

/** Returns the key under which a purchase of the caller's `idempotencyKey` is recorded and sent. */
export async function purchaseKeyOf({ roots }: AgentContext, ledger: AgentLedger, key: string): Promise<string> {
  if (typeof key === "string" && key.length >= 1 && key.length <= 256) return roots.purchaseKey(key, ledger);
  throw new InvalidRequest("idempotencyKey must be 1 to 256 characters long.");
}

/** Runs purchases of one key one after the other, so that the second finds what the first has paid. */
export function serializeByKey<T>({ ledger, key, target }: PayJob<unknown>, work: () => Promise<T>): Promise<T> {
  return key === undefined ? work() : ledger.serialize(`purchase:${key}:${target.resource}`, work);
}

export type QuoteOutcome<R> =
  | { readonly kind: "paid"; readonly response: R }
  | { readonly kind: "refused"; readonly error: TurnpikeError };

/** Pays like `payQuote`, and returns the answer. @throws also what it would return as refused */
export async function payOrThrow<R>(context: AgentContext, job: PayJob<R>, quote: ParsedQuote): Promise<R> {
  const outcome = await payQuote(context, job, quote);
  if (outcome.kind === "refused") throw outcome.error;
  return outcome.response;
}

/** Pays the cheapest option that the policy allows, once. */
export async function payQuote<R>(context: AgentContext, job: PayJob<R>, quote: ParsedQuote): Promise<QuoteOutcome<R>> {
  const { place } = job.target;
  const { options, plans, offers } = quote;
  const named = new Set([...plans, ...offers].map(({ planId }) => planId));
  const counts = { amount: options[0]?.amount, options: options.length, plans: named.size };
  context.effects.emit({ type: "payment.quoted", resource: place, ...counts });
  const outcome = await payOnce(context, job, quote);
  if (outcome.kind === "refused") emitRefusal(context, place, outcome.error);
  return outcome;
}

export function emitRefusal(context: AgentContext, place: string, { code, reason }: TurnpikeError): void {
  context.effects.emit({ type: "payment.refused", resource: place, code, reason });
}

async function payOnce<R>(context: AgentContext, job: PayJob<R>, quote: ParsedQuote): Promise<QuoteOutcome<R>> {
  const { ledger, target } = job;
  const quotedAtSec = context.effects.clock.nowSec();
  if (!context.policy.allowHttp && !target.isPrivate) {
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
    queue = await methodOf(chosen.option).approval?.queueOf(context, chosen.option);
  } catch (error) {
    return unsigned(context, target.place, error);
  }
  const signedOffer = offerFor(context, quote.signedOffers, { option: chosen.option, target });
  const work = () => payChosen(context, job, chosen, { quotedAtSec, signedOffer });
  return queue === undefined ? work() : ledger.serialize(queue, work);
}

async function purchaseOf({ signer }: AgentContext, { key, target }: PayJob<unknown>): Promise<Purchase> {
  const { method, resource, bodyHash } = target;
  return { payer: await signer.address(), method, resource, bodyHash, key };
}

/**
 * Checks that a job's key has not been used for another body, whose answer the payment would then buy. For channels
 * whose bodies have one form; over HTTP a repeated form may have another boundary.
 * @throws InvalidRequest
 */
export async function requireSameBody(context: AgentContext, job: PayJob<unknown>): Promise<void> {
  if (job.key === undefined || !job.ledger.isOfAnotherBody(await purchaseOf(context, job))) return;
  throw new InvalidRequest(
    "idempotencyKey has been used for a call of this tool with other arguments: repeat that call as it was, or use another key. Nothing was sent.",
    { reason: "idempotency_key" },
  );
}

/** Presents an earlier call's payment for exactly this purchase, before anything else is requested. */
export async function finishEarlier<R>(context: AgentContext, job: PayJob<R>): Promise<R | undefined> {
  const { ledger } = job;
  const entry = ledger.lockUnfinished(await purchaseOf(context, job));
  if (!entry) return undefined;
  try {
    await ledger.requireSaved(entry);
    return await finish(context, job, entry, true);
  } finally {
    ledger.unlock(entry.id);
  }
}

/** Signs what was chosen, and presents it. */
async function payChosen<R>(
  context: AgentContext,
  job: PayJob<R>,
  chosen: ChosenOption,
  quoted: Quoted,
): Promise<QuoteOutcome<R>> {
  let entry: PaymentEntry;
  try {
    entry = await signPayment(context, job, chosen, quoted);
  } catch (error) {
    return unsigned(context, job.target.place, error);
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

/** Returns the policy's refusal. @throws every other error, of which an event is emitted */
function unsigned(
  context: AgentContext,
  place: string,
  error: unknown,
): Extract<QuoteOutcome<unknown>, { readonly kind: "refused" }> {
  if (error instanceof PolicyRefused) return { kind: "refused", error };
  if (isTurnpikeError(error)) emitRefusal(context, place, error);
  throw error;
}

/**
 * Settles a payment and presents it.
 * @returns undefined when the payment turned out to be void, so that a new one may be made
 * @throws AbortError that says what the payment's state is
 */
function finish<R>(
  context: AgentContext,
  job: PayJob<R>,
  entry: PaymentEntry,
  resumed: boolean,
): Promise<R | undefined> {
  const now = () => job.ledger.payment(entry.id) ?? entry;
  const { closing } = context.effects;
  return orHeld({ signal: job.target.signal, closing, now }, () => settleAndPresent(context, job, entry, resumed));
}

async function settleAndPresent<R>(
  context: AgentContext,
  job: PayJob<R>,
  first: PaymentEntry,
  resumed: boolean,
): Promise<R | undefined> {
  const { ledger, target, channel } = job;
  const { signal } = target;
  const fresh = freshProofs(context);
  let entry = first;
  let wasReversed = false;
  for (;;) {
    const settled = await settledEntry(context, job, entry, { resumed, isFirstPost: !resumed && !wasReversed });
    if (!settled) return undefined;
    const isLate = resumed && isOver(context, settled);
    const presented = await present(context, { ledger, entry: settled, target, channel, resumed, isLate });
    if (presented.kind === "answered") return presented.response;
    if (resumed && (await isReplaceable(context, { ledger, entry: settled, presented, isLate }))) return undefined;
    if (presented.kind === "postponed") return presented.answer.result(receiptFor(settled, resumed));
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

async function settledEntry(
  context: AgentContext,
  { ledger, target }: PayJob<unknown>,
  entry: PaymentEntry,
  { resumed, isFirstPost }: { readonly resumed: boolean; readonly isFirstPost: boolean },
): Promise<PaymentEntry | undefined> {
  // The provider settles it, and a gate also accepts after the window what has settled within it.
  if (entry.dialect !== "turnpike") return entry;
  const settlement = await settle(context, { ledger, entry, resumed, signal: target.signal, isFirstPost });
  if (settlement.kind === "settled") return settlement.entry;
  if (resumed) return undefined;
  throw settlement.error;
}

function unsettled(entry: PaymentEntry): PaymentEntry {
  const { proof: _reversed, ...kept } = entry;
  return { ...kept, state: "signed" };
}
