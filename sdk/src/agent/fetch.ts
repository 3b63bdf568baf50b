/**
 * Implements the drop-in fetch: uses a subscription where one is recorded for the origin, pays where the policy allows
 * it, and otherwise returns the 402 as it came. A subscription's id goes to recorded origins only, whatever a 402
 * names.
 */
import { HEADER, type Hex, subscriptionId } from "../protocol";
import type { AgentContext } from "./core/context";
import { backoffMs, RetryBudget } from "./core/effects";
import {
  type Arrival,
  bearsCredential,
  isPrivateChannel,
  isRedirect,
  originAndPath,
  type RequestInput,
  retryAfterMs,
  sendOnce,
  sendWithinOrigin,
} from "./core/request";
import type { SubscriptionEntry } from "./ledger/ledger-store";
import type { PayJob } from "./payments/choose";
import { finishEarlier, type PayInit, payJob, payQuote, quoteOf, serializeByKey } from "./payments/pay";
import type { ParsedQuote } from "./payments/quote";
import { watchPayees } from "./subscriptions/payees";
import { secretOf } from "./subscriptions/subscription";

/** How long and how often one call retries a refusal that a recent change may explain. */
const FRESH_RETRY_MS = 2_000;
const FRESH_RETRIES = 3;

/**
 * @throws as fetch does; PaymentPending, PaymentAlreadyUsed and InvalidPaymentProof when a payment that was made is not
 * served
 */
export async function agentFetch(context: AgentContext, input: RequestInput, init: PayInit = {}): Promise<Response> {
  const job = await payJob(context, input, init);
  const { template } = job;
  // The caller's own credential is used as it is, but does not leave the origin either.
  if (bearsCredential(template)) return (await sendWithinOrigin(context.effects, template, job.headers)).response;
  return serializeByKey(job, async () => {
    await watchPayees(context, usableAt(context, job));
    const mine = usableAt(context, job);
    if (mine.length > 0) return withSubscription(context, job, mine);
    const earlier = await finishEarlier(context, job);
    if (earlier) return earlier;
    return payIfAsked(context, job, await firstAnswer(context, job));
  });
}

/** Returns the live subscriptions recorded for this origin, newest first. */
function usableAt(context: AgentContext, { ledger, template }: PayJob): SubscriptionEntry[] {
  const { origin } = new URL(template.url);
  if (!context.policy.allowHttp && !isPrivateChannel(template.url)) return [];
  return ledger
    .subscriptions()
    .filter((entry) => entry.state === "live" && entry.origins.includes(origin))
    .reverse();
}

/**
 * Sends the request without a credential of the agent: fetch follows redirects as usual; with an idempotency key, or
 * where the agent is set up so, only within the origin.
 */
async function firstAnswer(context: AgentContext, job: PayJob): Promise<Arrival> {
  const { template } = job;
  if (job.key !== undefined || context.withinOrigin) return sendWithinOrigin(context.effects, template, job.headers);
  const response = await sendOnce(context.effects, template);
  if (!response.redirected) return { response, template };
  return { response, template: { ...template, url: response.url } };
}

async function payIfAsked(context: AgentContext, job: PayJob, arrival: Arrival): Promise<Response> {
  const { response, template } = arrival;
  if (response.status !== 402 || isRedirect(response)) return response;
  const isElsewhere = new URL(template.url).origin !== new URL(job.template.url).origin;
  const isUnclear = response.redirected && template.method !== "GET" && template.method !== "HEAD";
  if (isElsewhere || isUnclear) return response;
  const quote = await quoteOf(context, { response: response.clone(), template });
  if (!quote) return response;
  emitUnusedSubscriptions(context, job, quote);
  return payInstead(context, { ...job, template }, quote, response);
}

/** The paid response, or the 402 as it came where the policy does not pay. */
async function payInstead(context: AgentContext, job: PayJob, quote: ParsedQuote, asked: Response): Promise<Response> {
  const outcome = await payQuote(context, job, quote);
  if (outcome.kind === "refused") return asked;
  await asked.body?.cancel();
  return outcome.response;
}

/** Emits an event for each subscribed plan that was not used since this origin is not recorded for it. */
function emitUnusedSubscriptions(context: AgentContext, { ledger, template }: PayJob, quote: ParsedQuote): void {
  const { origin } = new URL(template.url);
  const offered = offeredPlans(quote);
  for (const { id: idHash, planId, state, origins } of ledger.subscriptions()) {
    if (state !== "live" || !offered.has(planId) || origins.includes(origin)) continue;
    context.effects.emit({ type: "subscription.origin_unknown", idHash, planId, origin });
  }
}

const offeredPlans = (quote: ParsedQuote): ReadonlySet<Hex> =>
  new Set([...quote.offers.map(({ planId }) => planId), ...quote.plans.map(({ planId }) => planId)]);

async function withSubscription(context: AgentContext, job: PayJob, mine: SubscriptionEntry[]): Promise<Response> {
  const { effects, recentChanges } = context;
  const { freshMs } = effects.limits;
  const { signal } = job.template;
  const budgetMs = Math.min(FRESH_RETRY_MS, freshMs);
  const retries = new RetryBudget({ budgetMs, turns: FRESH_RETRIES, effects, signal });
  let isFresh = false;
  for (let turn = 0; ; turn++) {
    const { response, template, quote, entry } = await tryEach(context, job, mine);
    const place = originAndPath(template.url);
    if (response.status !== 402) {
      recentChanges.confirmed(entry.id, place);
      return response;
    }
    const refusal = { error: quote?.error, reason: quote?.reason };
    recentChanges.refused(entry.id, place, refusal);
    // Read in every turn: a call beside this one may have been served meanwhile. Never paid around in the same call.
    const changes = recentChanges.explaining(mine, refusal);
    isFresh ||= changes.length > 0;
    // A route that does not offer the plan has refused nothing: it never took subscriptions to it.
    const isRefusal = !quote || offeredPlans(quote).has(entry.planId);
    if (isRefusal && changes.some(({ isTried }) => !isTried)) {
      const waitMs = Math.max(retryAfterMs(response, Date.now(), 0), backoffMs(turn));
      if (await retries.wait(waitMs)) {
        await response.body?.cancel();
        continue;
      }
      for (const change of changes) change.isTried = true;
    }
    if (isRefusal) effects.emit({ type: "subscription.refused", idHash: entry.id, planId: entry.planId });
    // A reached cap or an empty wallet stays a refusal: only a subscription that has ended is replaced by a payment.
    if (!quote || (isRefusal && (isFresh || STAYS_REFUSED.has(quote.error ?? "")))) return response;
    return payInstead(context, { ...job, template }, quote, response);
  }
}

const STAYS_REFUSED: ReadonlySet<string> = new Set(["AllowanceExhausted", "InsufficientFunds"]);

interface Tried extends Arrival {
  readonly quote: ParsedQuote | undefined;
  readonly entry: SubscriptionEntry;
}

/** Tries the newest subscription; then, if the route offers another plan that is subscribed to, that one. */
async function tryEach(context: AgentContext, job: PayJob, mine: readonly SubscriptionEntry[]): Promise<Tried> {
  const left = [...mine];
  let entry = left.shift() as SubscriptionEntry;
  for (;;) {
    const credential = subscriptionId(entry.subscriber, await secretOf(context, entry));
    const headers = { ...job.headers, [HEADER.subscription]: credential };
    const arrival = await sendWithinOrigin(context.effects, job.template, headers);
    if (arrival.response.status !== 402) return { ...arrival, quote: undefined, entry };
    const quote = await quoteOf(context, { ...arrival, response: arrival.response.clone() });
    const offered = quote ? offeredPlans(quote) : new Set<Hex>();
    const next = left.findIndex(({ planId }) => offered.has(planId));
    if (next < 0) return { ...arrival, quote, entry };
    await arrival.response.body?.cancel();
    entry = left.splice(next, 1)[0] as SubscriptionEntry;
  }
}
