/**
 * Makes the gate's decision on a request. The order: read, check, claim, confirm, run the handler, settle. Adapters do the
 * last two.
 */
import { COMMON_HEADERS_BYTES, isTurnpikeError, MAX_QUOTE_HEADERS_BYTES, TurnpikeError } from "../../protocol";
import type { Decision } from "../core/answer";
import { charsetUnsupported, isBodyFault, warnOfBodyFault } from "../core/body";
import type { GateContext } from "../core/context";
import { type QuoteRequest, soldSingly } from "../core/offers";
import { freePayment, type Payment, type Refusal } from "../core/payment";
import { claimPayment, invalid, PaymentCase, type PaymentVerdict } from "../core/payment-case";
import {
  bookkeepingOutage,
  collectableOffers,
  isBookkeepingKnown,
  isRouteCollectable,
  quotedFlow,
} from "../core/readiness";
import type { GateRequest } from "../core/request";
import { isAuthorized, isFree, pageFor, type Route } from "../core/route";
import type { Dialects } from "../dialects";
import { type Credentials, type Dialect, type PaymentCredential, readCredentials } from "../dialects/dialect";
import { grantFromCache, judgeSubscription } from "../schemes/subscription/judge";
import type { SubscriptionVerdict } from "../schemes/subscription/payment";
import { judgeSignIn } from "../schemes/subscription/sign-in";

/** A route, and the dialects in which it sells. */
export interface GatedRoute extends Route {
  readonly dialects: Dialects;
}

type GatedCase = PaymentCase<GatedRoute>;

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
export function decide(context: GateContext, route: GatedRoute, request: GateRequest): Decision | Promise<Decision> {
  if (request.method === "OPTIONS") return PREFLIGHT_DECISION;
  const at = new PaymentCase(context, route, request);
  return route.bindsBody ? decideBound(at) : decideUnbound(at);
}

/** Reads the body first: callbacks and the handler can still read it afterwards. */
async function decideBound(at: GatedCase): Promise<Decision> {
  const { route, request } = at;
  try {
    requireUtf8(request.header("content-type") ?? "");
    await request.body(route.maxBodyBytes);
  } catch (error) {
    return refusalOfRequest(route, error);
  }
  return decideUnbound(at);
}

function decideUnbound(at: GatedCase): Decision | Promise<Decision> {
  if (at.route.free) return decideFree(at);
  try {
    const credentials = readCredentials(at.request, at.route.dialects);
    return decideSync(at, credentials) ?? decideAsync(at, credentials);
  } catch (error) {
    return refusalOfRequest(at.route, error);
  }
}

async function decideFree(at: GatedCase): Promise<Decision> {
  const { context, route, request } = at;
  try {
    if (await isFree(route, request)) return allow(freePayment(context.settings.token ?? {}));
    return await decidePaid(at, readCredentials(request, route.dialects));
  } catch (error) {
    return refusalOfRequest(route, error);
  }
}

async function decideAsync(at: GatedCase, credentials: Credentials): Promise<Decision> {
  try {
    return await decidePaid(at, credentials);
  } catch (error) {
    return refusalOfRequest(at.route, error);
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
function decideSync(at: GatedCase, { subscription, signIn, payment }: Credentials): Decision | undefined {
  const { context, route } = at;
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
  return quoteOf(at, { offers, refusal: UNPAID, isRecurrent: true });
}

function isQuotableSync(context: GateContext, route: Route): boolean {
  try {
    return isRouteCollectable(context, route) && isBookkeepingKnown(context, route);
  } catch {
    // The asynchronous path finds the same error, and reports it.
    return false;
  }
}

async function decidePaid(at: GatedCase, credentials: Credentials): Promise<Decision> {
  const { context, route, request } = at;
  let refusal = UNPAID;
  let outage: TurnpikeError | undefined;

  const { subscription, signIn } = credentials;
  if (subscription !== undefined || (signIn !== undefined && route.planIds.length > 0)) {
    const verdict = await judgeSubscriber(at, credentials);
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
  if (credentials.payment) {
    await at.hashBody();
    const { dialect } = credentials.payment;
    const verdict = await judgePayment(credentials.payment, at.in(route.contexts[0] ?? context));
    if (verdict.kind === "grants") return { ...verdict, kind: "allow" };
    if (verdict.kind === "replay") return verdict;
    if (verdict.kind === "barred") return { kind: "refuse", error: verdict.error };
    if (verdict.kind === "refused") {
      const error = dialect.errorFor?.(verdict.refusal);
      if (error) return { kind: "refuse", error };
      refusal = verdict.refusal;
    } else outage = verdict.cause;
  }
  outage ??= await bookkeepingOutage(context, route);
  return outage ? { kind: "unavailable", cause: outage } : quoteFor(at, refusal);
}

/** Checks a credential, then claims its payment and has it confirmed. */
async function judgePayment(credential: PaymentCredential, given: PaymentCase): Promise<PaymentVerdict> {
  try {
    const at = given.route.contexts.length > 1 ? await credential.entry(given) : given;
    const checked = await credential.check(at);
    return "kind" in checked ? checked : await claimPayment(at, checked);
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    if (error.status === 503) return { kind: "unavailable", cause: error };
    if (error.status === 409) return { kind: "barred", error };
    if (error.code === "InvalidPaymentProof") return invalid(error.reason ?? "malformed", error.message);
    throw error;
  }
}

/** Judges the secret id, and where that does not grant, the wallet's signature. */
async function judgeSubscriber(at: GatedCase, { subscription, signIn }: Credentials): Promise<SubscriptionVerdict> {
  const { context, route, request } = at;
  const byId = subscription === undefined ? undefined : await judgeSubscription(context, route, subscription);
  if (byId?.kind === "grants" || signIn === undefined) return byId as SubscriptionVerdict;
  await context.time.refresh();
  const bySignIn = await judgeSignIn(context, route, { method: request.method, resource: at.resource }, signIn);
  return bySignIn.kind === "grants" || byId?.kind !== "unavailable" ? bySignIn : byId;
}

/** Returns the 402 of this request with a reason, or the 503 of a route whose plans cannot be debited. */
export async function quoteFor(at: GatedCase, refusal: Refusal): Promise<Decision> {
  const { context, route, request } = at;
  const now = await route.offers.now(request);
  if (now.outage) return { kind: "unavailable", cause: now.outage };
  const { offers, outage } = await collectableOffers(context, route, now.offers);
  if (outage) return { kind: "unavailable", cause: outage };
  if (offers.length === 0 && !HELD_BY_SUBSCRIBERS.has(refusal.code)) return { kind: "refuse", error: noOfferLeft() };
  await at.hashBody();
  const signedOffers = await signedOffersOf(at, offers);
  return quoteOf(at, { offers, refusal, bodyHash: at.bodyHash, signedOffers });
}

/** Signs what a 402 sells singly, where the provider signs its offers. */
async function signedOffersOf(at: GatedCase, offers: QuoteRequest["offers"]): Promise<QuoteRequest["signedOffers"]> {
  const { offerReceipts } = at.context;
  const { presentation } = at.route;
  if (!offerReceipts || !presentation.x402v2) return undefined;
  return offerReceipts.offers(at.resource, soldSingly(offers, presentation));
}

/** Refusals of a subscription that the client has: it can be resumed or raised where nothing new is sold. */
const HELD_BY_SUBSCRIBERS: ReadonlySet<string> = new Set(["SubscriptionNotActive", "AllowanceExhausted"]);

const noOfferLeft = (): TurnpikeError =>
  new TurnpikeError("PlanDeprecated", "Every plan of this resource is deprecated: it accepts no new subscription.");

function quoteOf(
  at: GatedCase,
  given: Pick<QuoteRequest, "offers" | "refusal" | "bodyHash" | "isRecurrent" | "signedOffers">,
): Decision {
  const { request, route, resource } = at;
  const { settings, time } = at.context;
  const { presentation } = route;
  const flow = quotedFlow(route.contexts, route.settle);
  const asked = { settings, request, resource, presentation, flow, nowSec: time.latestSec(), body: at.body, ...given };
  const { quote, beside } = quoteInDialects(route, asked);
  if (!route.hasPage) return { kind: "pay", quote, beside };
  const page = pageFor({ request, resource, presentation, settings, quote });
  return { kind: "pay", quote, beside, negotiated: { page } };
}

/** Writes a 402 in every dialect that a route sells by. */
export function quoteInDialects({ quotes, dialects }: GatedRoute, asked: QuoteRequest) {
  const beside = dialects.length > 1 ? besideBody(dialects, asked) : undefined;
  // In a tool's result what the dialects add is no header, and shares no limit.
  const isShared = beside !== undefined && asked.request.resource === undefined;
  const quote = quotes.quote(isShared ? { ...asked, headerBytes: beside.headerBytes } : asked);
  return { quote, beside };
}

/** What dialects add that write no body, and what they leave of the headers to the one that does. */
function besideBody(dialects: readonly Dialect[], asked: QuoteRequest) {
  const headers: Readonly<Record<string, string>> = Object.assign(
    {},
    ...dialects.map((dialect) => dialect.quote?.(asked)),
  );
  const bytes = Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0);
  const problem = dialects.map((dialect) => dialect.problem?.(asked)).find((each) => each !== undefined);
  return { headers, problem, headerBytes: MAX_QUOTE_HEADERS_BYTES - COMMON_HEADERS_BYTES - bytes };
}

const allow = (payment: Payment): Decision => ({ kind: "allow", payment, claim: undefined, headers: NO_HEADERS });
