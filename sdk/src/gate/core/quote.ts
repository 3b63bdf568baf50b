/** Builds a quote: the 402 body, and the header that clients of x402 version 2 read. */
import type { Plan } from "../../chain/plans";
import {
  type AcceptEntryWire,
  caip2Of,
  type ErrorCode,
  encodeJsonHeader,
  HEADER,
  IDEMPOTENCY_KEY_LENGTH,
  issueMemo,
  MAX_PAYMENT_REQUIRED_HEADER_BYTES,
  type PaymentRequiredWire,
  type PlanTermsWire,
  periodOf,
  type QuotedFacts,
  randomRef,
  refOfIdempotencyKey,
  type SignedOffer,
  SUBSCRIPTION_SCHEME,
} from "../../protocol";
import { extensionsOf, offersExtension } from "./extensions-v2";
import { byPrice, expiryOf, type Offer, type Presentation, permit2Of, schemeOf, soldSingly } from "./offers";
import type { PaymentFlow } from "./payment";
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
}

export interface QuoteRequest {
  readonly settings: Settings;
  readonly request: Pick<GateRequest, "method" | "header" | "resource">;
  readonly resource: string;
  /** hex SHA-256, where the route binds bodies */
  readonly bodyHash?: string | undefined;
  readonly offers: readonly Offer[];
  /** whether the quote may be built from a template: offers and refusal are the same objects each time */
  readonly isRecurrent?: boolean;
  readonly presentation: Presentation;
  /** by which standard payments of its entries settle */
  readonly flow: PaymentFlow;
  readonly nowSec: number;
  readonly refusal: Refusal;
  /** of the entries that sell one request, in their order; absent or empty: none is signed */
  readonly signedOffers?: readonly SignedOffer[] | undefined;
}

/** Seconds that a stock client's authorization may live. Less than a quote's life, so that it ends before the quote. */
export const MAX_TIMEOUT_SEC = 300;

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
  return {
    body,
    text: JSON.stringify(body),
    sold: entries.map(({ offer }) => offer),
    memos: entries.map(({ memo }) => memo),
    headerV2: presentation.x402v2 ? headerV2Of(input, { entries, sellsSingly, plans: offered }) : undefined,
  };
}

interface Entry {
  readonly offer: Offer;
  readonly memo: string;
}

/**
 * Stock clients of version 1 refuse a body with any scheme but `exact`, and know no Permit2: such entries, like those of
 * plans, are in the body only where they are alone.
 */
function entriesOfBody(entries: readonly Entry[]): readonly Entry[] {
  const payable = entries.filter(({ offer }) => !permit2Of(offer));
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
  const { transfer } = permit2Of(offer) ?? {};
  const bound = { ...(bodyHash !== undefined && { bodyHash }), ...(transfer && { transfer }) };
  return { ...facts, network: context.settings.network.name, ...bound };
}

/** Returns whether a header can carry the key unambiguously: visible ASCII of a bounded length. */
export function isUsableKey(key: string): boolean {
  const { min, max } = IDEMPOTENCY_KEY_LENGTH;
  return key.length >= min && key.length <= max && /^[\x21-\x7e]+$/.test(key);
}

/**
 * What an entry says of the way that its money moves. It names its flow where that is not the scheme's default; `upto` has
 * one flow.
 */
function wayOf(offer: Offer, flow: PaymentFlow): Readonly<Record<string, string>> {
  const permit2 = permit2Of(offer);
  return {
    ...(flow === "upfront" && schemeOf(offer) === "exact" && { paymentFlow: flow }),
    ...(permit2 && { assetTransferMethod: "permit2" }),
    ...(permit2?.facilitatorAddress && { facilitatorAddress: permit2.facilitatorAddress }),
  };
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

/**
 * Encodes as many entries as fit, cheapest first, then as many extensions. Where only plans are offered the extensions
 * come first, since subscribers sign in through them: the entries only let stock clients parse the header.
 */
function headerV2Of(
  { settings, request, resource, presentation, flow, refusal, nowSec, signedOffers = [] }: QuoteRequest,
  {
    entries,
    sellsSingly,
    plans,
  }: {
    readonly entries: readonly Entry[];
    readonly sellsSingly: boolean;
    readonly plans: readonly Plan[];
  },
): string | undefined {
  const { description, mimeType, metered, discovery } = presentation;
  const place = { method: request.method, resource };
  const sponsorsGas = entries.some(({ offer }) => permit2Of(offer)?.sponsorsGas);
  const others = extensionsOf({ settings, place, plans, metered, sellsSingly, sponsorsGas, discovery, nowSec });
  const isSigned = sellsSingly && signedOffers.length > 0;
  // A payer without gas can pay without the signed offers, and not without the sponsoring: that is dropped last.
  const before = sponsorsGas ? 1 : 0;
  const extensionsFor = (count: number) =>
    isSigned ? others.toSpliced(before, 0, offersExtension(signedOffers.slice(0, count))) : others;
  const accepts = entries.map(({ offer, memo }) => {
    const { amount, token, payTo, context } = offer;
    return {
      scheme: sellsSingly ? schemeOf(offer) : SUBSCRIPTION_SCHEME,
      network: caip2Of(context.settings.network.chainId),
      amount: amount.toString(),
      asset: token.address,
      payTo,
      maxTimeoutSeconds: MAX_TIMEOUT_SEC,
      extra: sellsSingly ? { name: token.name, version: token.version, ...wayOf(offer, flow), memo } : {},
    };
  });
  for (const [count, kept] of sizes({ accepts: accepts.length, extensions: extensionsFor(0).length, sellsSingly })) {
    const header = encodeJsonHeader({
      x402Version: 2,
      error: refusal.code,
      resource: { url: resource, description, mimeType },
      accepts: accepts.slice(0, count),
      ...(kept > 0 ? { extensions: Object.fromEntries(extensionsFor(count).slice(0, kept)) } : {}),
    });
    if (header.length <= MAX_PAYMENT_REQUIRED_HEADER_BYTES) return header;
  }
  return undefined;
}

/**
 * Yields how many entries and extensions to try, the most first. Stock clients need one entry; plans alone, one
 * extension.
 */
function* sizes({
  accepts,
  extensions,
  sellsSingly,
}: {
  readonly accepts: number;
  readonly extensions: number;
  readonly sellsSingly: boolean;
}): Generator<readonly [count: number, kept: number]> {
  if (sellsSingly) {
    for (let count = accepts; count > 0; count--) for (let kept = extensions; kept >= 0; kept--) yield [count, kept];
    return;
  }
  for (let kept = extensions; kept > 0; kept--) for (let count = accepts; count > 0; count--) yield [count, kept];
}
