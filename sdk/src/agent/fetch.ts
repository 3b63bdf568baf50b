/**
 * Implements the drop-in fetch: uses a subscription where one is recorded for the origin, pays where the policy allows
 * it, and otherwise returns the 402 as it came. A subscription's id goes to recorded origins only, whatever a 402
 * names.
 */
import { HEADER } from "../protocol";
import type { AgentContext } from "./core/context";
import {
  type Arrival,
  bearsCredential,
  isRedirect,
  type RequestInput,
  retryAfterMs,
  sendOnce,
  sendWithinOrigin,
} from "./core/request";
import { isLarge } from "./core/upload";
import type { SubscriptionEntry } from "./ledger/ledger-store";
import { quoteOf } from "./payments/dialects";
import { type HttpJob, type PayInit, payJob, redirectedJob } from "./payments/pay";
import { finishEarlier, payQuote, serializeByKey } from "./payments/purchase";
import { keepHeaderReceipts, keepReceiptsOf } from "./receipts/keep";
import { watchPayees } from "./subscriptions/payees";
import {
  emitUnusedSubscriptions,
  liveAt,
  type SendSubscribed,
  type SubscribedAnswer,
  withSubscription,
} from "./subscriptions/use-subscription";

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
    if (mine.length > 0) {
      const send: SendSubscribed<Response> = (credential, entry) => sendSubscribed(context, job, { credential, entry });
      return withSubscription(context, mine, { signal: template.signal, send });
    }
    const earlier = await finishEarlier(context, job);
    if (earlier) return earlier;
    return payIfAsked(context, job, await firstAnswer(context, job));
  });
}

/** Returns the live subscriptions recorded for this origin, newest first; none where the channel is not private. */
function usableAt(context: AgentContext, { ledger, target }: HttpJob): SubscriptionEntry[] {
  if (!context.policy.allowHttp && !target.isPrivate) return [];
  return liveAt(ledger, new URL(target.resource).origin);
}

async function sendSubscribed(
  context: AgentContext,
  job: HttpJob,
  { credential, entry }: { readonly credential: string; readonly entry: SubscriptionEntry },
): Promise<SubscribedAnswer<Response>> {
  const headers = { ...job.headers, [HEADER.subscription]: credential };
  const arrival = await sendWithinOrigin(context.effects, job.template, headers, (redirect) =>
    keepHeaderReceipts(context, { entry, ...redirect }),
  );
  const { template } = arrival;
  const response = await keepReceiptsOf(context, { entry, ...arrival });
  const isAsk = response.status === 402;
  return {
    isAsk,
    quote: isAsk ? await quoteOf(context, { response: response.clone(), template }) : undefined,
    response,
    job: redirectedJob(context, job, template),
    waitMs: (fallbackMs) => retryAfterMs(response, Date.now(), fallbackMs),
    discard: async () => response.body?.cancel(),
  };
}

/**
 * Sends the request without a credential of the agent: fetch follows redirects as usual; with an idempotency key, or
 * where the agent is set up so, only within the origin.
 */
async function firstAnswer(context: AgentContext, job: HttpJob): Promise<Arrival> {
  const { template } = job;
  if (job.key !== undefined || context.withinOrigin) return sendWithinOrigin(context.effects, template, job.headers);
  if (isLarge(template.body) && context.effects.streamsUploads) {
    // Streamed, and followed by hand: fetch follows with a body only what it holds whole, as it does beyond the origin.
    const arrival = await sendWithinOrigin(context.effects, template, job.headers);
    if (!isRedirect(arrival.response) || template.redirect === "manual") return arrival;
    await arrival.response.body?.cancel();
  }
  const response = await sendOnce(context.effects, template);
  if (!response.redirected) return { response, template };
  return { response, template: { ...template, url: response.url } };
}

async function payIfAsked(context: AgentContext, job: HttpJob, arrival: Arrival): Promise<Response> {
  const { response, template } = arrival;
  if (response.status !== 402 || isRedirect(response)) return response;
  const { origin } = new URL(job.template.url);
  const isElsewhere = new URL(template.url).origin !== origin;
  const isUnclear = response.redirected && template.method !== "GET" && template.method !== "HEAD";
  if (isElsewhere || isUnclear) return response;
  const quote = await quoteOf(context, { response: response.clone(), template });
  if (!quote) return response;
  emitUnusedSubscriptions(context, job.ledger, { origin, quote });
  const outcome = await payQuote(context, redirectedJob(context, job, template), quote);
  // The 402 as it came where the policy does not pay.
  if (outcome.kind === "refused") return response;
  await response.body?.cancel();
  return outcome.response;
}
