/**
 * Buys one tool call: with a subscription that is recorded for the server, else with a payment, within the agent's
 * policy. What the model, the tool or its texts say decides nothing here.
 */
import type { AgentContext } from "../../agent/core/context";
import type { PayJob } from "../../agent/payments/channel";
import {
  emitRefusal,
  finishEarlier,
  payOrThrow,
  purchaseKeyOf,
  requireSameBody,
  serializeByKey,
} from "../../agent/payments/purchase";
import type { ParsedQuote } from "../../agent/payments/quote";
import { keepReceipts } from "../../agent/receipts/keep";
import { offeredPlansOf, type SubscribeOptions } from "../../agent/subscriptions/offers";
import { watchPayees } from "../../agent/subscriptions/payees";
import { subscribe } from "../../agent/subscriptions/subscribe";
import {
  emitUnusedSubscriptions,
  liveAt,
  type SendSubscribed,
  withSubscription,
} from "../../agent/subscriptions/use-subscription";
import { AbortError, HEADER, type Hex, InvalidRequest, isTurnpikeError, PolicyRefused } from "../../protocol";
import {
  type CallResult,
  callHash,
  credentialKeyIn,
  type Meta,
  subscriptionMeta,
  toolResource,
  usageReceiptsIn,
} from "../wire";
import { callChannel, type SendCall } from "./call-channel";
import { namesOfTool, quoteOf, readAsk } from "./read-ask";
import type { ServerIdentity } from "./server-identity";

/** Plans that may be subscribed to where a tool offers them, and on what terms; amounts in base units. */
export interface ToolSubscriptions
  extends Pick<SubscribeOptions, "maxOverage" | "until" | "periods" | "voucher" | "facilitator"> {
  /** the plans of this server, by id; the cheapest that a tool offers is subscribed to */
  readonly plans: readonly Hex[];
}

/** What a client may buy at its server. */
export interface ToolPurchases {
  readonly server: ServerIdentity;
  /** the tools that may be paid for; undefined: all */
  readonly tools: ReadonlySet<string> | undefined;
  readonly subscriptions: ToolSubscriptions | undefined;
}

/** One call of a tool. */
export interface ToolCallJob<R extends CallResult> {
  readonly purchases: ToolPurchases;
  readonly tool: string;
  readonly args: unknown;
  readonly meta: Meta | undefined;
  /** of the HTTP request that brings the call, beside the transport's own */
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly idempotencyKey: string | undefined;
  readonly maxAmount: bigint | undefined;
  readonly signal: AbortSignal | undefined;
  readonly send: SendCall<R>;
}

/**
 * @returns the result of the tool, never one that asks for payment
 * @throws PolicyRefused when nothing that the server asks for may be paid; nothing was signed
 */
export async function buyCall<R extends CallResult>(context: AgentContext, call: ToolCallJob<R>): Promise<R> {
  requireUnpaid(call);
  const job = await payJobOf(context, call);
  const { tools } = call.purchases;
  if (tools && !tools.has(call.tool)) return callUnpaid(context, job, call);
  return serializeByKey(job, async () => {
    await requireSameBody(context, job);
    await watchPayees(context, usableAt(job, call));
    const subscribed = await bySubscription(context, job, call);
    if (subscribed) return subscribed;
    const earlier = await finishEarlier(context, job);
    return earlier ?? payIfAsked(context, job, call);
  });
}

const PAYMENT_HEADERS: readonly string[] = [HEADER.payment, HEADER.paymentSignatureV2];

/** @throws InvalidRequest for a call that bears a payment of its own */
function requireUnpaid({ meta, headers }: Pick<ToolCallJob<CallResult>, "meta" | "headers">): void {
  const key = credentialKeyIn(meta);
  const header = Object.keys(headers ?? {}).find((name) => PAYMENT_HEADERS.includes(name.toUpperCase()));
  if (key === undefined && header === undefined) return;
  const place = key === undefined ? `headers["${header}"]` : `_meta["${key}"]`;
  throw new InvalidRequest(`${place}: leave it out; the agent pays for the call.`);
}

async function callUnpaid<R extends CallResult>(
  context: AgentContext,
  job: PayJob<R>,
  call: ToolCallJob<R>,
): Promise<R> {
  const result = await call.send({});
  if (!readAsk(result)) return result;
  throw refusal(context, job, "The tool asks for payment, and is not among the `tools` that may be paid for.", "tool");
}

async function payIfAsked<R extends CallResult>(
  context: AgentContext,
  job: PayJob<R>,
  call: ToolCallJob<R>,
): Promise<R> {
  const result = await call.send({});
  if (!readAsk(result)) return result;
  const quote = await askedQuote(context, call, result);
  if (!quote) {
    throw refusal(context, job, "The tool asks for payment without terms that can be understood.", "quote");
  }
  const { origin } = call.purchases.server;
  emitUnusedSubscriptions(context, job.ledger, { origin, quote });
  const planId = await subscribeTo(context, call, quote);
  const subscribed = planId && (await orSubscribed(call.signal, planId, () => bySubscription(context, job, call)));
  if (subscribed) return subscribed;
  return payOrThrow(context, job, quote);
}

async function payJobOf<R extends CallResult>(context: AgentContext, call: ToolCallJob<R>): Promise<PayJob<R>> {
  const { purchases, tool, args, idempotencyKey, maxAmount, signal, send } = call;
  const { id, place, isPrivate } = purchases.server;
  const ledger = await context.ledger();
  const key = idempotencyKey === undefined ? undefined : await purchaseKeyOf(context, ledger, idempotencyKey);
  const bodyHash = callHash({ server: id, tool, args });
  const name = `#${encodeURIComponent(tool)}`;
  const target = {
    method: "tools/call",
    resource: `${id}${name}`,
    place: `${place}${name}`,
    names: namesOfTool(tool),
    bodyHash,
    isPrivate,
    signal,
  };
  return { ledger, target, channel: callChannel(send), key, maxAmount };
}

const usableAt = <R extends CallResult>({ ledger }: PayJob<R>, { purchases }: ToolCallJob<R>) =>
  purchases.server.isConfidential ? liveAt(ledger, purchases.server.origin) : [];

/** @returns undefined where no subscription is recorded for the server */
async function bySubscription<R extends CallResult>(
  context: AgentContext,
  job: PayJob<R>,
  call: ToolCallJob<R>,
): Promise<R | undefined> {
  const mine = usableAt(job, call);
  if (mine.length === 0) return undefined;
  const send: SendSubscribed<R> = async (credential, entry) => {
    const response = await call.send(subscriptionMeta(credential));
    const receipts = usageReceiptsIn(response._meta);
    if (receipts.length > 0) {
      await keepReceipts(context, { entry, method: "CALL", resource: toolResource(call.tool) }, receipts);
    }
    const isAsk = readAsk(response) !== undefined;
    const quote = await askedQuote(context, call, response);
    return { isAsk, quote, response, job, waitMs: (fallbackMs) => fallbackMs, discard: async () => {} };
  };
  const result = await withSubscription(context, mine, { signal: call.signal, send });
  if (!readAsk(result)) return result;
  const { error, reason } = (await askedQuote(context, call, result)) ?? {};
  const why = error === undefined ? "" : ` (${error}${reason === undefined ? "" : `: ${reason}`})`;
  const message = `The server does not serve the subscription${why}, and the policy allows no payment for the call.`;
  throw refusal(context, job, message, error ?? "subscription");
}

/** Returns what a result asks to be paid; undefined where it asks for nothing, or in terms that cannot be understood. */
async function askedQuote<R extends CallResult>(
  { networks, tokens }: AgentContext,
  { tool, idempotencyKey }: ToolCallJob<R>,
  result: R,
): Promise<ParsedQuote | undefined> {
  const ask = readAsk(result);
  return ask && quoteOf(result, ask, { tool, networks, tokens, isKeyed: idempotencyKey !== undefined });
}

/**
 * Subscribes to the cheapest offered plan that the user has named for this server.
 * @returns its id; undefined where there is none, or the policy refuses it
 */
async function subscribeTo<R extends CallResult>(
  context: AgentContext,
  { purchases: { subscriptions, server } }: ToolCallJob<R>,
  quote: ParsedQuote,
): Promise<Hex | undefined> {
  if (!subscriptions || !server.isConfidential) return undefined;
  const { plans, ...terms } = subscriptions;
  const named = new Set(plans.map((planId) => planId.toLowerCase()));
  const offered = await offeredPlansOf(context, quote);
  const planId = offered.find((plan) => plan.reason === undefined && named.has(plan.planId.toLowerCase()))?.planId;
  if (planId === undefined) return undefined;
  const facilitator = terms.facilitator ?? quote.offers.find((offer) => offer.planId === planId)?.facilitator;
  try {
    await subscribe(context, { ...terms, planId, origins: [server.origin], ...(facilitator && { facilitator }) });
    return planId;
  } catch (error) {
    if (error instanceof PolicyRefused) return undefined;
    throw error;
  }
}

/** Runs what follows a signup: an abort then does not mean that nothing was signed. */
async function orSubscribed<T>(signal: AbortSignal | undefined, planId: Hex, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal?.aborted !== true || isTurnpikeError(error)) throw error;
    const message = `The call was aborted after the agent had subscribed to plan ${planId}. Repeat the call: it uses the subscription.`;
    throw new AbortError(message, { reason: "subscribed", details: { signed: true, planId }, cause: signal.reason });
  }
}

/** Creates the error of a call that is not paid for, and emits why. */
function refusal(
  context: AgentContext,
  { target }: PayJob<CallResult>,
  message: string,
  reason: string,
): PolicyRefused {
  const error = new PolicyRefused(message, { reason });
  emitRefusal(context, target.place, error);
  return error;
}
