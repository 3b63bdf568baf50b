/**
 * Makes the gate's decision on a request. The order: judge, claim, run the handler, settle the claim. This module does
 * the first two; adapters translate the decision, run the handler and settle the claim.
 */
import { concatBytes, isTurnpikeError, sha256, TurnpikeError, toHex, utf8ToBytes } from "../../protocol";
import type { Decision } from "./answer";
import { charsetUnsupported, isBodyFault, warnOfBodyFault } from "./body";
import { invalid, isAuthorized, type PaymentCase, type PaymentVerdict } from "./claim-payment";
import type { GateContext } from "./context";
import { type Credentials, type PaymentCredential, readCredentials } from "./credentials";
import { judgeNative } from "./judge-proof";
import { grantFromCache, judgeSubscription } from "./judge-subscription";
import { soldSingly } from "./offers";
import { pageFor } from "./page";
import { freePayment, type Payment } from "./payment";
import { quotedFlow } from "./payment-flow";
import type { QuoteRequest, Refusal } from "./quote";
import { judgeV1, judgeV2 } from "./read-standard";
import { bookkeepingOutage, collectableOffers, isBookkeepingKnown, isRouteCollectable } from "./readiness";
import { type GateRequest, resourceOfRequest } from "./request";
import { askCallback, type Route } from "./route";
import { entryCase } from "./select-entry";
import { judgeSignIn } from "./sign-in";
import type { SubscriptionVerdict } from "./subscriber-payment";

/** What is said to a request without a credential. */
export const UNPAID: Refusal = {
  code: "PaymentRequired",
  message: "Pay one of `accepts` or subscribe to a plan, then repeat this request with the proof or subscription id.",
};

const NO_HEADERS = {};

const PREFLIGHT_DECISION: Decision = { kind: "preflight" };

/**
 * Decides synchronously where everything needed is in memory (most subscribers' requests, and those without
 * credentials): a promise costs more than such a decision.
 * @throws (or rejects with) ConfigError or Internal (500) for a faulty setting, price function or callback; the request
 * is never free
 */
export function decide(context: GateContext, route: Route, request: GateRequest): Decision | Promise<Decision> {
  if (request.method === "OPTIONS") return PREFLIGHT_DECISION;
  return route.bindsBody ? decideBound(context, route, request) : decideUnbound(context, route, request);
}

/** Reads the body first: callbacks and the handler can still read it afterwards. */
async function decideBound(context: GateContext, route: Route, request: GateRequest): Promise<Decision> {
  try {
    requireUtf8(request.header("content-type") ?? "");
    await request.body(route.maxBodyBytes);
  } catch (error) {
    return refusalOfRequest(route, error);
  }
  return decideUnbound(context, route, request);
}

function decideUnbound(context: GateContext, route: Route, request: GateRequest): Decision | Promise<Decision> {
  if (route.free) return decideFree(context, route, request);
  try {
    const credentials = readCredentials(request);
    return decideSync(context, route, request, credentials) ?? decideAsync(context, route, request, credentials);
  } catch (error) {
    return refusalOfRequest(route, error);
  }
}

async function decideFree(context: GateContext, route: Route, request: GateRequest): Promise<Decision> {
  try {
    if (await isFree(route, request)) return allow(freePayment(context.settings.token ?? {}));
    return await decidePaid(context, route, request, readCredentials(request));
  } catch (error) {
    return refusalOfRequest(route, error);
  }
}

async function decideAsync(
  context: GateContext,
  route: Route,
  request: GateRequest,
  credentials: Credentials,
): Promise<Decision> {
  try {
    return await decidePaid(context, route, request, credentials);
  } catch (error) {
    return refusalOfRequest(route, error);
  }
}

/**
 * @throws errors that are not the request's fault, except a body that cannot be bound: that answer says what to change
 */
function refusalOfRequest(route: Route, error: unknown): Decision {
  if (isBodyFault(error)) warnOfBodyFault(route, error);
  else if (!isTurnpikeError(error) || !REFUSED.has(error.status)) throw error;
  return { kind: "refuse", error };
}

const REFUSED: ReadonlySet<number> = new Set([400, 413, 415]);

/** @throws UnsupportedMediaType where any charset is named but UTF-8 */
function requireUtf8(contentType: string): void {
  for (const [, charset = ""] of contentType.matchAll(/charset\s*=\s*("[^"]*"?|[^\s;,]*)/gi)) {
    if (!/^"?utf-?8"?$/i.test(charset)) throw charsetUnsupported(charset.slice(0, 40));
  }
}

/** @returns undefined where the decision needs a call, a computation or a write */
function decideSync(
  context: GateContext,
  route: Route,
  request: GateRequest,
  { subscription, signIn, payment }: Credentials,
): Decision | undefined {
  if (subscription !== undefined) {
    const granted = route.authorize ? undefined : grantFromCache(context, route, subscription);
    return granted && allow(granted);
  }
  if (signIn !== undefined || payment || route.bindsBody || context.offerReceipts || route.refreshTime()) {
    return undefined;
  }
  if (!isQuotableSync(context, route)) return undefined;
  const offers = route.offers.cached();
  if (!offers || offers.length === 0) return undefined;
  return quoteOf(context, route, request, { offers, refusal: UNPAID, isRecurrent: true });
}

function isQuotableSync(context: GateContext, route: Route): boolean {
  try {
    return isRouteCollectable(context, route) && isBookkeepingKnown(context, route);
  } catch {
    // The asynchronous path finds the same error, and reports it.
    return false;
  }
}

async function decidePaid(
  context: GateContext,
  route: Route,
  request: GateRequest,
  credentials: Credentials,
): Promise<Decision> {
  let refusal = UNPAID;
  let outage: TurnpikeError | undefined;

  const { subscription, signIn } = credentials;
  if (subscription !== undefined || (signIn !== undefined && route.planIds.length > 0)) {
    const verdict = await judgeSubscriber(context, route, request, credentials);
    if (verdict.kind === "grants") {
      const { payment } = verdict;
      if (!route.authorize || (await isAuthorized(route, payment, request))) return allow(payment);
      return { kind: "refuse", error: new TurnpikeError("AccessRefused") };
    }
    if (verdict.kind === "refused") refusal = verdict.refusal;
    else outage = verdict.cause;
  }

  const refreshing = route.refreshTime();
  if (refreshing) await refreshing;
  const resource = resourceOfRequest(request, context.settings);

  if (credentials.payment) {
    const bodyHash = route.bindsBody ? await hashOfBody(route, request) : undefined;
    const at = { context: route.contexts[0] ?? context, route, request, resource, bodyHash };
    const verdict = await judgePayment(credentials.payment, at);
    if (verdict.kind === "grants") return { ...verdict, kind: "allow" };
    if (verdict.kind === "replay") return verdict;
    if (verdict.kind === "barred") return { kind: "refuse", error: verdict.error };
    if (verdict.kind === "refused") refusal = verdict.refusal;
    else outage = verdict.cause;
  }
  outage ??= await bookkeepingOutage(context, route);
  return outage ? { kind: "unavailable", cause: outage } : quoteFor(context, route, request, refusal);
}

/** Judges a payment header and claims its payment: a proof of this project's Facilitator, or a standard payload. */
async function judgePayment(credential: PaymentCredential, given: PaymentCase): Promise<PaymentVerdict> {
  try {
    const at = given.route.contexts.length > 1 ? await entryCase(credential, given) : given;
    switch (credential.kind) {
      case "malformed":
        return invalid("malformed", `${credential.header} holds no payment: ${credential.why}`);
      case "proof":
        return await judgeNative(credential.payload, at);
      case "x402-v1":
        return await judgeV1(credential, at);
      case "x402-v2":
        return await judgeV2(credential, at);
    }
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    if (error.status === 503) return { kind: "unavailable", cause: error };
    if (error.status === 409) return { kind: "barred", error };
    if (error.code === "InvalidPaymentProof") return invalid(error.reason ?? "malformed", error.message);
    throw error;
  }
}

/** Judges the secret id, and where that does not grant, the wallet's signature. */
async function judgeSubscriber(
  context: GateContext,
  route: Route,
  request: GateRequest,
  { subscription, signIn }: Credentials,
): Promise<SubscriptionVerdict> {
  const byId = subscription === undefined ? undefined : await judgeSubscription(context, route, subscription);
  if (byId?.kind === "grants" || signIn === undefined) return byId as SubscriptionVerdict;
  await context.time.refresh();
  const place = { method: request.method, resource: resourceOfRequest(request, context.settings) };
  const bySignIn = await judgeSignIn(context, route, place, signIn);
  return bySignIn.kind === "grants" || byId?.kind !== "unavailable" ? bySignIn : byId;
}

/** Returns the 402 of this request with a reason, or the 503 of a route whose plans cannot be debited. */
export async function quoteFor(
  context: GateContext,
  route: Route,
  request: GateRequest,
  refusal: Refusal,
): Promise<Decision> {
  const now = await route.offers.now(request);
  if (now.outage) return { kind: "unavailable", cause: now.outage };
  const { offers, outage } = await collectableOffers(context, route, now.offers);
  if (outage) return { kind: "unavailable", cause: outage };
  if (offers.length === 0 && !HELD_BY_SUBSCRIBERS.has(refusal.code)) return { kind: "refuse", error: noOfferLeft() };
  const bodyHash = route.bindsBody ? await hashOfBody(route, request) : undefined;
  const signedOffers = await signedOffersOf(context, route, request, offers);
  return quoteOf(context, route, request, { offers, refusal, bodyHash, signedOffers });
}

/** Signs what a 402 sells singly, where the provider signs its offers. */
async function signedOffersOf(
  { offerReceipts, settings }: GateContext,
  { presentation }: Route,
  request: GateRequest,
  offers: QuoteRequest["offers"],
): Promise<QuoteRequest["signedOffers"]> {
  if (!offerReceipts || !presentation.x402v2) return undefined;
  return offerReceipts.offers(resourceOfRequest(request, settings), soldSingly(offers, presentation));
}

/** Refusals of a subscription that the client has: it can be resumed or raised where nothing new is sold. */
const HELD_BY_SUBSCRIBERS: ReadonlySet<string> = new Set(["SubscriptionNotActive", "AllowanceExhausted"]);

const noOfferLeft = (): TurnpikeError =>
  new TurnpikeError("PlanDeprecated", "Every plan of this resource is deprecated: it accepts no new subscription.");

function quoteOf(
  context: GateContext,
  route: Route,
  request: GateRequest,
  asked: Pick<QuoteRequest, "offers" | "refusal" | "bodyHash" | "isRecurrent" | "signedOffers">,
): Decision {
  const { settings, time } = context;
  const resource = resourceOfRequest(request, settings);
  const { presentation, quotes } = route;
  const flow = quotedFlow(route.contexts, route.settle);
  const quote = quotes.quote({ settings, request, resource, presentation, flow, nowSec: time.latestSec(), ...asked });
  if (!route.hasPage) return { kind: "pay", quote };
  return { kind: "pay", quote, negotiated: { page: pageFor({ request, resource, presentation, settings, quote }) } };
}

/** Hashes the body with its content type and encoding: the same bytes under another type may be another request. */
async function hashOfBody(route: Route, request: GateRequest): Promise<string> {
  const bytes = await request.body(route.maxBodyBytes);
  const readAs = utf8ToBytes(`${request.header("content-type") ?? ""}\n${request.header("content-encoding") ?? ""}\n`);
  return toHex(sha256(concatBytes(readAs, bytes)));
}

const allow = (payment: Payment): Decision => ({ kind: "allow", payment, claim: undefined, headers: NO_HEADERS });

async function isFree(route: Route, request: GateRequest): Promise<boolean> {
  const answer = await askCallback({
    route,
    request,
    callback: "`free`",
    undecided: "Whether this request is free could not be decided.",
    ask: (raw) => route.free?.(raw),
  });
  return answer === true;
}
