/** Builds a quote: the 402 body, beside the header that clients of x402 version 2 read. */
import type { Plan } from "../../chain/plans";
import {
  type AcceptEntryWire,
  type ErrorCode,
  HEADER,
  IDEMPOTENCY_KEY_LENGTH,
  issueMemo,
  type PaymentRequiredWire,
  type PlanTermsWire,
  periodOf,
  type QuotedFacts,
  randomRef,
  refOfIdempotencyKey,
  SUBSCRIPTION_SCHEME,
} from "../../protocol";
import {
  byPrice,
  expiryOf,
  MAX_TIMEOUT_SEC,
  methodOf,
  type Offer,
  type Presentation,
  schemeOf,
  soldSingly,
  wayOf,
} from "./offers";
import { type Entry, type HeaderRequest, headerV2Of } from "./quote-header";
import { type GateRequest, quotedMethod } from "./request";
import type { Settings } from "./settings";

export interface Refusal {
  readonly code: ErrorCode;
  readonly reason?: string;
  readonly message: string;
}

export interface Quote {
  readonly body: PaymentRequiredWire;
  /** the body as it is sent */
  readonly text: string;
  /** every offer with an entry in body or header, and the memo of each */
  readonly sold: readonly Offer[];
  readonly memos: readonly string[];
  /** value of PAYMENT-REQUIRED; undefined when there is nothing that such a client could buy */
  readonly headerV2: string | undefined;
  /** what that header lacks as it would be too long */
  readonly cuts: readonly string[];
}

export interface QuoteRequest extends HeaderRequest {
  readonly request: Pick<GateRequest, "method" | "header" | "resource">;
  /** hex SHA-256, where the route binds bodies */
  readonly bodyHash?: string | undefined;
  readonly offers: readonly Offer[];
  /** whether the quote may be built from a template: offers and refusal are the same objects each time */
  readonly isRecurrent?: boolean;
  readonly refusal: Refusal;
}

export function buildQuote(input: QuoteRequest): Quote {
  const { settings, presentation, refusal } = input;
  const ref = refOf(input);
  const memoFor = (offer: Offer): string =>
    issueMemo(settings.memoKeys[0], factsOf(input, offer), ref, expiryOf(offer));

  const plans = input.offers.filter((offer) => offer.kind === "subscription").sort(byPrice);
  const singly = soldSingly(input.offers, presentation);
  const sellsSingly = singly.length > 0;
  const entries = (sellsSingly ? singly : plans).map((offer) => ({ offer, memo: memoFor(offer) }));
  const [firstPlan] = plans;
  const accepts = entriesOfBody(entries).map(({ offer, memo }) =>
    entryOf(input, offer, { memo, sellsSingly, firstPlan }),
  );

  const idempotencyKey = keyIn(input);
  const ignored =
    idempotencyKey !== undefined && !isUsableKey(idempotencyKey)
      ? ` The Idempotency-Key was ignored: it must have ${IDEMPOTENCY_KEY_LENGTH.min} to ${IDEMPOTENCY_KEY_LENGTH.max} visible ASCII characters, and no space.`
      : "";
  const body: PaymentRequiredWire = {
    version: "1",
    x402Version: 1,
    error: refusal.code,
    ...(refusal.reason === undefined ? {} : { reason: refusal.reason }),
    message: `${refusal.message}${ignored}`,
    accepts,
    ...(plans.length > 0 ? { plans: plans.map(({ plan }) => planTermsOf(settings, plan, presentation)) } : {}),
  };
  const offered = plans.map(({ plan }) => plan);
  const header = presentation.x402v2 ? headerV2Of(input, { entries, sellsSingly, plans: offered }) : undefined;
  return {
    body,
    text: JSON.stringify(body),
    sold: entries.map(({ offer }) => offer),
    memos: entries.map(({ memo }) => memo),
    headerV2: header?.value,
    cuts: header?.cuts ?? [],
  };
}

/**
 * Stock clients of version 1 refuse a body with any scheme but `exact`, and know one method: other entries, like those of
 * plans, are in the body only where they are alone.
 */
function entriesOfBody(entries: readonly Entry[]): readonly Entry[] {
  const payable = entries.filter(({ offer }) => methodOf(offer).isOfVersion1);
  return payable.length > 0 ? payable : entries;
}

const IDEMPOTENCY_KEY = HEADER.idempotencyKey.toLowerCase();

const keyIn = ({ request }: QuoteRequest): string | undefined => request.header(IDEMPOTENCY_KEY);

/** Returns the request's Idempotency-Key; undefined when it has none, or one that cannot be used. */
export function usableKeyOf(request: Pick<GateRequest, "header">): string | undefined {
  const key = request.header(IDEMPOTENCY_KEY);
  return key !== undefined && isUsableKey(key) ? key : undefined;
}

/** Returns the memo's ref: the same for the same purchase and key; without a key, a new one for each quote. */
export function refOf(input: QuoteRequest): string {
  const { settings, request, resource } = input;
  const key = usableKeyOf(request);
  if (key === undefined) return randomRef();
  return refOfIdempotencyKey(settings.memoKeys[0], request.method, resource, key);
}

/** Returns the facts that a memo covers. */
export function factsOf({ settings, request, resource, bodyHash }: QuoteRequest, offer: Offer): QuotedFacts {
  const { context, amount, token, payTo } = offer;
  const facts = { method: quotedMethod(request, settings), resource, amount, token: token.address, payTo };
  const transfer = methodOf(offer).bound(schemeOf(offer));
  const bound = { ...(bodyHash !== undefined && { bodyHash }), ...(transfer && { transfer }) };
  return { ...facts, network: context.settings.network.name, ...bound };
}

/** Returns whether a header can carry the key unambiguously: visible ASCII of a bounded length. */
export function isUsableKey(key: string): boolean {
  const { min, max } = IDEMPOTENCY_KEY_LENGTH;
  return key.length >= min && key.length <= max && /^[\x21-\x7e]+$/.test(key);
}

interface EntryFacts {
  readonly memo: string;
  /** whether one transfer buys one request; false: the entry can only be subscribed to */
  readonly sellsSingly: boolean;
  readonly firstPlan: Extract<Offer, { kind: "subscription" }> | undefined;
}

function entryOf(
  { resource, presentation, flow }: QuoteRequest,
  offer: Offer,
  { memo, sellsSingly, firstPlan }: EntryFacts,
): AcceptEntryWire {
  const { token, payTo, context } = offer;
  const { settings } = context;
  const amount = offer.amount.toString();
  const facilitator = settings.facilitator?.url ?? "";
  const isPlan = offer.kind === "subscription";
  const named = isPlan ? offer : planBeside(offer, firstPlan);
  return {
    scheme: sellsSingly ? schemeOf(offer) : SUBSCRIPTION_SCHEME,
    network: settings.networkText,
    token: token.address,
    amount,
    payTo,
    memo,
    hoodlayer: named ? { facilitator, planId: named.plan.planId, subscriptionScheme: true } : { facilitator },
    maxAmountRequired: amount,
    asset: token.address,
    resource,
    description: presentation.description,
    mimeType: presentation.mimeType,
    maxTimeoutSeconds: MAX_TIMEOUT_SEC,
    // Without the token's domain nothing can be signed.
    extra: {
      ...(sellsSingly ? { name: token.name, version: token.version, ...wayOf(offer, flow) } : {}),
      ...(isPlan ? { kind: "subscription" } : {}),
    },
  };
}

type PlanOffer = EntryFacts["firstPlan"];

/**
 * At the plan's own price an entry names no plan: agents would take it for the plan itself. Nor does an entry of another
 * network or Facilitator, which could not sign them up.
 */
const planBeside = ({ amount, context }: Offer, plan: PlanOffer): PlanOffer =>
  plan?.amount === amount || plan?.context !== context ? undefined : plan;

function planTermsOf(settings: Settings, plan: Plan, presentation: Presentation): PlanTermsWire {
  return {
    planId: plan.planId,
    amount: plan.amount.toString(),
    interval: plan.intervalSec,
    ...(plan.months > 0 && { period: periodOf(plan) }),
    grace: plan.graceSec,
    token: plan.token,
    network: settings.networkText,
    payTo: plan.payTo,
    metered: presentation.metered,
  };
}
