/**
 * Requests with the subscriptions that are recorded for an origin, over any channel. A refusal that a recent change
 * explains is retried; only a subscription that has ended is replaced by a payment.
 */
import { type Hex, subscriptionId } from "../../protocol";
import type { AgentContext } from "../core/context";
import { backoffMs, RetryBudget } from "../core/effects";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import type { PayJob } from "../payments/channel";
import { payQuote } from "../payments/purchase";
import type { ParsedQuote } from "../payments/quote";
import { secretOf } from "./subscription";

/** How long and how often one call retries a refusal that a recent change may explain. */
const FRESH_RETRY_MS = 2_000;
const FRESH_RETRIES = 3;

/** What a provider answers to a request with a subscription. */
export interface SubscribedAnswer<R> {
  /** whether it asks for payment instead */
  readonly isAsk: boolean;
  readonly quote: ParsedQuote | undefined;
  readonly response: R;
  /** what was requested: another resource after redirects within the origin */
  readonly job: PayJob<R>;
  /** how long the provider asks to wait, ms */
  waitMs(fallbackMs: number): number;
  discard(): Promise<void>;
}

/** Sends the request with a subscription's id, and keeps the usage receipts of its answer. */
export type SendSubscribed<R> = (credential: string, entry: SubscriptionEntry) => Promise<SubscribedAnswer<R>>;

/** Returns the live subscriptions recorded for an origin, newest first. */
export function liveAt(ledger: AgentLedger, origin: string): SubscriptionEntry[] {
  return ledger
    .subscriptions()
    .filter((entry) => entry.state === "live" && entry.origins.includes(origin))
    .reverse();
}

/** Emits an event for each subscribed plan that was not used since this origin is not recorded for it. */
export function emitUnusedSubscriptions(
  context: AgentContext,
  ledger: AgentLedger,
  { origin, quote }: { readonly origin: string; readonly quote: ParsedQuote },
): void {
  const offered = offeredPlans(quote);
  for (const { id: idHash, planId, state, origins } of ledger.subscriptions()) {
    if (state !== "live" || !offered.has(planId) || origins.includes(origin)) continue;
    context.effects.emit({ type: "subscription.origin_unknown", idHash, planId, origin });
  }
}

const offeredPlans = (quote: ParsedQuote): ReadonlySet<Hex> =>
  new Set([...quote.offers.map(({ planId }) => planId), ...quote.plans.map(({ planId }) => planId)]);

/** Returns the answer to the request with one of `mine`, or the paid one where none of them is good for it. */
export async function withSubscription<R>(
  context: AgentContext,
  mine: readonly SubscriptionEntry[],
  { signal, send }: { readonly signal: AbortSignal | undefined; readonly send: SendSubscribed<R> },
): Promise<R> {
  const { effects, recentChanges } = context;
  const { freshMs } = effects.limits;
  const budgetMs = Math.min(FRESH_RETRY_MS, freshMs);
  const retries = new RetryBudget({ budgetMs, turns: FRESH_RETRIES, effects, signal });
  let isFresh = false;
  for (let turn = 0; ; turn++) {
    const { answer, entry } = await tryEach(context, mine, send);
    const { quote, response, job } = answer;
    const { place } = job.target;
    if (!answer.isAsk) {
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
      if (await retries.wait(Math.max(answer.waitMs(0), backoffMs(turn)))) {
        await answer.discard();
        continue;
      }
      for (const change of changes) change.isTried = true;
    }
    if (isRefusal) effects.emit({ type: "subscription.refused", idHash: entry.id, planId: entry.planId });
    // A reached cap or an empty wallet stays a refusal: only a subscription that has ended is replaced by a payment.
    if (!quote || (isRefusal && (isFresh || STAYS_REFUSED.has(quote.error ?? "")))) return response;
    const outcome = await payQuote(context, job, quote);
    if (outcome.kind === "refused") return response;
    await answer.discard();
    return outcome.response;
  }
}

const STAYS_REFUSED: ReadonlySet<string> = new Set(["AllowanceExhausted", "InsufficientFunds"]);

interface Tried<R> {
  readonly answer: SubscribedAnswer<R>;
  readonly entry: SubscriptionEntry;
}

/** Tries the newest subscription; then, if the route offers another plan that is subscribed to, that one. */
async function tryEach<R>(
  context: AgentContext,
  mine: readonly SubscriptionEntry[],
  send: SendSubscribed<R>,
): Promise<Tried<R>> {
  const left = [...mine];
  let entry = left.shift() as SubscriptionEntry;
  for (;;) {
    const answer = await send(subscriptionId(entry.subscriber, await secretOf(context, entry)), entry);
    const { isAsk, quote } = answer;
    if (!isAsk) return { answer, entry };
    const offered = quote ? offeredPlans(quote) : new Set<Hex>();
    const next = left.findIndex(({ planId }) => offered.has(planId));
    if (next < 0) return { answer, entry };
    await answer.discard();
    entry = left.splice(next, 1)[0] as SubscriptionEntry;
  }
}
