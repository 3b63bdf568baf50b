/**
 * Creates a gated route: checks its options, loads its terms, makes its offers for a request, and asks the provider's
 * callbacks about one.
 */
import { ConfigError, type Hex, isTurnpikeError, TurnpikeError, type Unavailable } from "../../protocol";
import { atMost } from "../../protocol/waiting";
import { bodyUnbound } from "./body";
import { requireChargeRecords } from "./charge-record";
import type { GateContext } from "./context";
import { checkDiscovery, type Discovery } from "./extensions-v2";
import type { Offer, OfferContext, Presentation } from "./offers";
import { hasPage } from "./page";
import type { MeteredRoute, Payment } from "./payment";
import { type SettleOrder, settleOrderOf } from "./payment-flow";
import { permit2TermsOf, requireSupport, supportOutage } from "./permit2-offers";
import { isOverPermit2, type Price, type PricingEntry, pricingOf, requireKnown } from "./pricing";
import { createQuotes, type Quotes } from "./quotes";
import type { GateRequest } from "./request";
import { TermsLoader } from "./terms-loader";

/** What one route offers, and how it is treated. */
export interface GateOptions<Req = unknown> {
  readonly pricing: readonly PricingEntry<Req>[];
  /** requests that cost nothing; a throw is a 500, never free */
  readonly free?: (request: Req) => boolean | Promise<boolean>;
  /** refuse before the handler when a subscription's allowance is spent; set by the first deductAllowance otherwise */
  readonly metered?: boolean;
  /** asked before a payment is used up; false is a 403 and leaves the payment unused */
  readonly authorize?: (payment: Payment, request: Req) => boolean | Promise<boolean>;
  /** tie each quote to the body that it was asked for with: needed where the price depends on the body */
  readonly bind?: "body";
  /** false keeps no answer of this route for a client that lost it */
  readonly replay?: boolean;
  /** the most that `bind: "body"` reads of a body; a longer one is 413; default 1,048,576 */
  readonly maxBodyBytes?: number;
  /**
   * when a standard x402 payment settles: "after" the handler, so that a failure costs nothing, or "before" it, for
   * handlers that stream; default "after" where the Facilitator reserves payments, otherwise "before"
   */
  readonly settle?: "before" | "after";
  /**
   * answer a browser that opens the route by GET with a page on which a person pays by a wallet and then sees the
   * content; every other client gets JSON as before. Needs a one-time price and the token's decimals; default false
   */
  readonly page?: boolean;
  /**
   * have a one-time payment refunded when it has settled and its handler answers with 400 or more, or throws: from the
   * account that the provider has named at its Facilitator; needs `facilitator.refundsKey`; default false: it may be
   * presented again after a 5xx
   */
  readonly refundOnFailure?: boolean;
  /** shown to clients with the price; default "" */
  readonly description?: string;
  /** default "application/json" */
  readonly mimeType?: string;
  /** let anyone buy one request at the plan's price where only plans are offered; default false */
  readonly sellSingleAtPlanPrice?: boolean;
  /** how to call the resource, for catalogues of x402 version 2 (the extension `bazaar`) */
  readonly discovery?: Discovery;
  /** send PAYMENT-REQUIRED for clients of x402 version 2; default true */
  readonly x402v2?: boolean;
  /** set CORS headers where the application has set none; default true */
  readonly cors?: boolean;
}

const FIELDS: Readonly<Record<keyof GateOptions, true>> = {
  pricing: true,
  free: true,
  metered: true,
  authorize: true,
  bind: true,
  replay: true,
  maxBodyBytes: true,
  settle: true,
  page: true,
  refundOnFailure: true,
  description: true,
  mimeType: true,
  sellSingleAtPlanPrice: true,
  discovery: true,
  x402v2: true,
  cors: true,
};

export const GATE_FIELDS: readonly string[] = Object.keys(FIELDS);

export interface Route extends MeteredRoute {
  /** in which its payments are judged, the provider's own first; at least one */
  readonly contexts: readonly GateContext[];
  /** Brings the time of every context up to date; undefined when all are. Waits a bounded time. */
  refreshTime(): Promise<void> | undefined;
  readonly planIds: readonly Hex[];
  readonly presentation: Presentation;
  readonly cors: boolean;
  /** whether browsers get a page instead of JSON */
  readonly hasPage: boolean;
  readonly bindsBody: boolean;
  /** whether answers are kept for clients that lose them */
  readonly replays: boolean;
  /** when standard payments settle */
  readonly settle: SettleOrder;
  /** whether a settled payment whose handler fails is refunded */
  readonly refundOnFailure: boolean;
  /** of a body that is bound */
  readonly maxBodyBytes: number;
  /** whether it sells single requests, whose payments must be claimed */
  readonly sellsSingles: boolean;
  readonly free: ((raw: unknown) => boolean | Promise<boolean>) | undefined;
  readonly authorize: ((payment: Payment, raw: unknown) => boolean | Promise<boolean>) | undefined;
  /** Loads what quotes are made from. @throws ConfigError, Unavailable */
  ready(): Promise<void>;
  /** Returns the offers where they need no call and no computation: the same list while the terms are the same. */
  cachedOffers(): readonly Offer[] | undefined;
  readonly quotes: Quotes;
  /**
   * Returns every option at its current price, without those whose terms cannot be read; the outage where none can be.
   * @throws ConfigError
   */
  offers(request: GateRequest): Promise<OffersNow>;
}

export interface OffersNow {
  readonly offers: readonly Offer[];
  /** why nothing can be offered now; names no host to a client */
  readonly outage?: Unavailable;
  /** of the contexts whose prices are left out */
  readonly outages: ReadonlyMap<OfferContext, Unavailable>;
}

/** @throws ConfigError where failures could not be refunded, or nothing is sold that could be */
function mayRefund(
  { refundOnFailure = false, sellSingleAtPlanPrice }: GateOptions<never>,
  contexts: readonly GateContext[],
  hasPrices: boolean,
): boolean {
  if (typeof refundOnFailure !== "boolean") {
    throw new ConfigError(`refundOnFailure is ${JSON.stringify(refundOnFailure)}: use true, or leave it out`);
  }
  if (!refundOnFailure) return false;
  if (!hasPrices && !sellSingleAtPlanPrice) {
    throw new ConfigError("refundOnFailure is set without a one-time price: only one-time payments are refunded");
  }
  for (const { settings } of contexts) {
    if (settings.facilitator?.refundsKey !== undefined) continue;
    throw new ConfigError(
      `refundOnFailure is set, but facilitator.refundsKey (TURNPIKE_REFUNDS_KEY) is not, for payments on ${settings.network.name}: use an API key with the scope refunds`,
    );
  }
  return true;
}

const MAX_BODY_BYTES = 1_048_576;

/** @throws ConfigError: a setting that is misspelt or without effect would leave bodies unbound */
function bindingOf({ bind, maxBodyBytes }: GateOptions<never>): Pick<Route, "bindsBody" | "maxBodyBytes"> {
  if (bind !== undefined && bind !== "body")
    throw new ConfigError(`bind is "${String(bind)}": "body" is all it can be`);
  if (bind === undefined && maxBodyBytes !== undefined) {
    throw new ConfigError('maxBodyBytes is set without bind: "body": a gate that binds no bodies reads none');
  }
  const bytes = maxBodyBytes ?? MAX_BODY_BYTES;
  if (Number.isSafeInteger(bytes) && bytes >= 1) return { bindsBody: bind === "body", maxBodyBytes: bytes };
  throw new ConfigError(`maxBodyBytes is ${bytes}: use a whole number of at least 1`);
}

/** @throws ConfigError for pricing that could never be charged as written */
export function createRoute<Req>(context: GateContext, options: GateOptions<Req>): Route {
  requireKnown(options, GATE_FIELDS, "paymentGate");
  const { prices, planIds, contexts } = pricingOf(options.pricing, context);
  const sellsUpto = prices.some(({ scheme }) => scheme === "upto");
  if (sellsUpto && options.settle === "before") {
    throw new ConfigError('settle is "before", but a price of type "upto" settles after the handler: leave settle out');
  }
  const loaders = contexts.map(
    (each) =>
      new TermsLoader(each, {
        planIds: each === context ? planIds : [],
        withToken: prices.some((price) => price.context === each),
      }),
  );

  async function singles(request: GateRequest, sold: ReadonlySet<GateContext>): Promise<Offer[]> {
    const offers: Offer[] = [];
    for (const price of prices) {
      if (!sold.has(price.context)) continue;
      offers.push(...singleAt(price, price.kind === "fixed" ? price.amount : await asked(price, request)));
    }
    return offers;
  }

  async function asked(price: Extract<Price, { kind: "computed" }>, request: GateRequest): Promise<bigint> {
    const wasRead = request.isBodyRead;
    const amount = await price.of(request.raw);
    if (options.bind === undefined && !wasRead && request.isBodyRead) throw bodyUnbound("the price");
    return amount;
  }

  function singleAt(price: Price, amount: bigint): Offer[] {
    const { context: at } = price;
    const token = tokenOf(at);
    const { payTo } = at.settings;
    const permit2 = isOverPermit2(price) ? permit2TermsOf(price) : undefined;
    if (!token || !payTo || permit2 === "unsupported") return [];
    return [{ kind: "one-time", context: at, amount, payTo, token, ...(permit2 && { permit2 }) }];
  }

  const overPermit2 = [...new Set(prices.filter(isOverPermit2).map((price) => price.context))];

  const { terms } = context;

  function subscription(planId: Hex): Offer[] {
    const plan = terms.plan(planId);
    const token = plan && terms.token(plan.token);
    // A deprecated plan still serves its subscribers, but accepts no new ones.
    if (!plan || !token || plan.deprecated) return [];
    return [{ kind: "subscription", context, amount: plan.amount, payTo: plan.payTo, token, plan }];
  }

  const isFixed = prices.every(({ kind }) => kind === "fixed");
  let held:
    | { readonly read: readonly unknown[]; readonly plans: readonly unknown[]; readonly offers: readonly Offer[] }
    | undefined;

  function cachedOffers(): readonly Offer[] | undefined {
    if (!isFixed || loaders.some(({ isLoaded, isMisconfigured }) => !isLoaded || isMisconfigured)) return undefined;
    const supports = overPermit2.map(({ support }) => support.known());
    if (supports.includes(undefined)) return undefined;
    const read = [...contexts.map(tokenOf), ...supports];
    const isHeld = held?.read.every((each, i) => each === read[i]);
    if (held && isHeld && held.plans.every((plan, i) => plan === terms.plan(planIds[i] as Hex))) return held.offers;
    const fixed = prices.flatMap((price) => (price.kind === "fixed" ? singleAt(price, price.amount) : []));
    const offers = [...fixed, ...planIds.flatMap(subscription)];
    held = { read, plans: planIds.map((planId) => terms.plan(planId)), offers };
    return offers;
  }

  return {
    cachedOffers,
    quotes: createQuotes(),
    planIds,
    metered: options.metered ?? false,
    cors: options.cors ?? true,
    hasPage: hasPage(options, prices),
    replays: options.replay ?? true,
    settle: settleOrderOf(options.settle),
    refundOnFailure: mayRefund(options as GateOptions<never>, contexts, prices.length > 0),
    ...bindingOf(options as GateOptions<never>),
    sellsSingles: prices.length > 0 || options.sellSingleAtPlanPrice === true,
    free: options.free as Route["free"],
    authorize: options.authorize as Route["authorize"],
    presentation: {
      description: options.description ?? "",
      mimeType: options.mimeType ?? "application/json",
      metered: options.metered ?? false,
      discovery: checkDiscovery(options.discovery),
      x402v2: options.x402v2 ?? true,
      sellSingleAtPlanPrice: options.sellSingleAtPlanPrice ?? false,
    },
    contexts,
    async ready() {
      if (sellsUpto) requireChargeRecords(context.claims);
      await readyAny(loaders);
      await Promise.all(prices.filter(isOverPermit2).map(requireSupport));
    },
    refreshTime: timeRefresher(contexts),
    async offers(request) {
      await retryAll(loaders);
      const sound = loaders.filter(({ isMisconfigured }) => !isMisconfigured);
      if (sound.length === 0) throw loaders[0]?.fault;
      const sold = new Set(sound.map((loader) => loader.context));
      const unsupported = await supportOutage(overPermit2);
      const offers = [...(await singles(request, sold)), ...(sold.has(context) ? planIds.flatMap(subscription) : [])];
      const missing = sound.filter(({ isLoaded }) => !isLoaded);
      const outages = new Map(missing.map((loader) => [loader.context, loader.outage()]));
      const outage = [...outages.values()][0] ?? unsupported;
      return { offers, outages, ...(offers.length === 0 && outage ? { outage } : {}) };
    },
  };
}

/** The token of a context's one-time prices, where its terms are known. */
const tokenOf = ({ settings, terms }: GateContext) => settings.token && terms.token(settings.token.address);

/**
 * Loads every context's terms. With several, the outage of one is logged and the others are sold.
 * @throws ConfigError of any; Unavailable where none can be read
 */
async function readyAny(loaders: readonly TermsLoader[]): Promise<void> {
  const results = await Promise.allSettled(loaders.map((loader) => loader.load()));
  const failed = results.filter((result) => result.status === "rejected").map(({ reason }) => reason as unknown);
  const isOutage = (error: unknown) => isTurnpikeError(error) && error.code === "Unavailable";
  const fault = failed.find((error) => !isOutage(error)) ?? (failed.length === loaders.length ? failed[0] : undefined);
  if (fault !== undefined) throw fault;
}

/** How long the others wait for a context that is read for the first time. */
const PATIENCE_MS = 1_000;

/** Once waited for in vain, it is not waited for again in this time. */
const QUIET_MS = 5_000;

/**
 * Reads what is not known yet. Where others can be sold meanwhile, only the first reading of one is waited for, and for
 * a bounded time.
 */
async function retryAll(loaders: readonly TermsLoader[]): Promise<void> {
  const missing = loaders.filter(({ isLoaded, isMisconfigured }) => !isLoaded || isMisconfigured);
  if (missing.length === 0) return;
  const retried = Promise.all(missing.map((loader) => loader.retry()));
  if (missing.length === loaders.length) await retried;
  else {
    const waitMs = PATIENCE_MS - Math.max(...missing.map(({ unreadMs }) => unreadMs));
    await atMost(Math.max(0, waitMs), retried, () => undefined);
  }
}

/** Brings the time of every context up to date; undefined when all are. */
function timeRefresher(contexts: readonly GateContext[]): () => Promise<void> | undefined {
  const [only] = contexts;
  if (only && contexts.length === 1) return () => only.time.refresh();
  const quietUntilMs = new Map<GateContext, number>();
  const refresh = async (stale: readonly GateContext[], refreshing: readonly Promise<void>[]): Promise<void> => {
    await Promise.all(refreshing);
    for (const each of stale) if (each.time.refresh()) quietUntilMs.set(each, performance.now() + QUIET_MS);
  };
  return () => {
    const nowMs = performance.now();
    const stale: GateContext[] = [];
    const refreshing: Promise<void>[] = [];
    for (const each of contexts) {
      const pending = (quietUntilMs.get(each) ?? 0) > nowMs ? undefined : each.time.refresh();
      if (!pending) continue;
      stale.push(each);
      refreshing.push(pending);
    }
    return stale.length === 0 ? undefined : refresh(stale, refreshing);
  };
}

export interface Question<T> {
  readonly route: Pick<Route, "bindsBody">;
  readonly request: GateRequest;
  /** the option's name, and what its failure leaves undecided */
  readonly callback: string;
  readonly undecided: string;
  readonly ask: (raw: unknown) => T | Promise<T>;
}

/**
 * Asks a provider's callback about a request, and keeps the request's body for the handler.
 * @throws Internal for a callback that throws, InvalidRequest as it is, ConfigError where the callback read the body
 */
export async function askCallback<T>({ route, request, callback, undecided, ask }: Question<T>): Promise<T> {
  const wasLost = request.isBodyLost;
  let answer: T;
  try {
    answer = await ask(request.raw);
  } catch (cause) {
    throw isTurnpikeError(cause) && cause.status === 400 ? cause : new TurnpikeError("Internal", undecided, { cause });
  }
  if (!route.bindsBody && !wasLost && request.isBodyLost) throw bodyUnbound(callback);
  return answer;
}
