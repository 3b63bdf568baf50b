/**
 * Creates a gated route from its options, asks the provider's callbacks about a request, and decides which requests get a
 * page for people instead of JSON.
 */
import { ConfigError, HEADER, isEip3009, isTurnpikeError, type Network } from "../../protocol";
import { prefersHtml } from "../page/accept";
import { renderPage } from "../page/document";
import { type PageOption, withoutTurning } from "../page/terms";
import type { CorsSetting } from "./answer";
import { bodyUnbound } from "./body";
import { callbackFault } from "./callback-fault";
import type { GateContext } from "./context";
import {
  type BodyBinding,
  bindingOf,
  chargeForOf,
  checkGateOptions,
  type GateOptions,
  mayRefund,
  pricingEntriesOf,
} from "./gate-options";
import { checkDiscovery, type Discovery, type Presentation, type Quote, type Quotes } from "./offers";
import type { MeteredRoute, Payment } from "./payment";
import { type Price, pricingOf } from "./pricing";
import { type SettleOrder, settleOrderOf } from "./readiness";
import type { GateRequest } from "./request";
import { RouteOffers } from "./route-offers";
import type { Settings } from "./settings";

/** How a route is treated, as its options say. */
export interface RouteRules {
  readonly cors: CorsSetting;
  /** whether browsers get a page instead of JSON */
  readonly hasPage: boolean;
  /** whether answers are kept for clients that lose them */
  readonly replays: boolean;
  /** when standard payments settle */
  readonly settle: SettleOrder;
  /** which answers below 400 are charged for by a payment that settles after them */
  readonly chargeFor: GateOptions["chargeFor"];
  /** whether a settled payment whose handler fails is refunded */
  readonly refundOnFailure: boolean;
  /** whether it sells single requests, whose payments must be claimed */
  readonly sellsSingles: boolean;
  readonly free: ((raw: unknown) => boolean | Promise<boolean>) | undefined;
  readonly authorize: ((payment: Payment, raw: unknown) => boolean | Promise<boolean>) | undefined;
}

/** What a route sells, and how it is treated. */
export interface Route extends RouteRules, MeteredRoute, BodyBinding {
  /** in which its payments are judged, the provider's own first; at least one */
  readonly contexts: readonly GateContext[];
  /** Brings the time of every context up to date; undefined when all are. Waits a bounded time. */
  refreshTime(): Promise<void> | undefined;
  readonly presentation: Presentation;
  /** Loads what quotes are made from. @throws ConfigError, Unavailable */
  ready(): Promise<void>;
  readonly offers: RouteOffers;
  readonly quotes: Quotes;
}

/** @throws ConfigError for pricing that could never be charged as written */
export function createRoute<Req>(context: GateContext, options: GateOptions<Req>, quotes: Quotes): Route {
  checkGateOptions(options);
  const { prices, planIds, contexts } = pricingOf(pricingEntriesOf(options), context);
  const sellsUpto = prices.some(({ scheme }) => scheme === "upto");
  if (sellsUpto && options.settle === "before") {
    throw new ConfigError('settle is "before", but a price of type "upto" settles after the handler: leave settle out');
  }
  const offers = new RouteOffers(context, { prices, planIds, contexts }, { bindsBody: options.bind !== undefined });
  const refreshTime = timeRefresher(contexts);
  return {
    offers,
    quotes,
    planIds,
    metered: options.metered ?? false,
    cors: options.cors ?? "unset",
    hasPage: hasPage(options, prices),
    replays: options.replay ?? true,
    settle: settleOrderOf(options.settle),
    chargeFor: chargeForOf(options as GateOptions<never>),
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
      await offers.load();
    },
    refreshTime() {
      const refreshing = refreshTime();
      // Asked meanwhile: chain and Facilitator may both be silent.
      if (refreshing) offers.askSupport();
      return refreshing;
    },
  };
}

/** Brings the time of every context up to date; undefined when nothing is to be waited for. */
function timeRefresher(contexts: readonly GateContext[]): () => Promise<void> | undefined {
  const [only] = contexts;
  if (only && contexts.length === 1) return () => only.time.refresh();
  return () => {
    const refreshing = contexts.map((each) => each.time.refresh()).filter((each) => each !== undefined);
    return refreshing.length === 0 ? undefined : Promise.all(refreshing).then(() => undefined);
  };
}

interface Question<T> {
  readonly route: Pick<BodyBinding, "bindsBody">;
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
async function askCallback<T>({ route, request, callback, undecided, ask }: Question<T>): Promise<T> {
  const wasLost = request.isBodyLost;
  let answer: T;
  try {
    answer = await ask(request.raw);
  } catch (cause) {
    throw isTurnpikeError(cause) && cause.status === 400 ? cause : callbackFault(callback, undecided, cause);
  }
  if (!route.bindsBody && !wasLost && request.isBodyLost) throw bodyUnbound(callback);
  return answer;
}

/** Returns whether the provider's `free` lets a request in. @throws as askCallback does */
export async function isFree(route: Route, request: GateRequest): Promise<boolean> {
  const answer = await askCallback({
    route,
    request,
    callback: "`free`",
    undecided: "Whether this request is free could not be decided.",
    ask: (raw) => route.free?.(raw),
  });
  return answer === true;
}

/** Returns whether the provider's `authorize` lets a payer in. @throws as askCallback does */
export async function isAuthorized(route: Route, payment: Payment, request: GateRequest): Promise<boolean> {
  const answer = await askCallback({
    route,
    request,
    callback: "`authorize`",
    undecided: "Whether this payer may be served could not be decided.",
    ask: (raw) => route.authorize?.(payment, raw),
  });
  return answer !== false;
}

/** The options of a route that decide about its page. */
interface PageOptions {
  readonly page?: unknown;
  readonly bind?: unknown;
  readonly discovery?: Pick<Discovery, "body"> | undefined;
}

/**
 * Checks whether a route can have a page.
 * @throws ConfigError naming the option
 */
export function hasPage({ page, bind, discovery }: PageOptions, prices: readonly Price[]): boolean {
  if (page === undefined || page === false) return false;
  if (page !== true) throw new ConfigError(`page is ${JSON.stringify(page)}: use true or false`);
  if (prices.length === 0) {
    throw new ConfigError("page is set, but pricing has no one-time entry: a page sells single requests; add one");
  }
  if (bind === "body" || discovery?.body !== undefined) {
    const other = bind === "body" ? 'bind: "body"' : "discovery.body";
    throw new ConfigError(`page is set beside ${other}: a browser opens a page by GET, without a body; remove one`);
  }
  for (const { context } of prices) {
    const { token, network } = context.settings;
    if (token?.decimals !== undefined) continue;
    throw new ConfigError(
      `page is set, but the decimals of token ${token?.address} on ${network.name} are not: set token.decimals (TURNPIKE_TOKEN_DECIMALS)`,
    );
  }
  return true;
}

const CREDENTIALS = [HEADER.payment, HEADER.paymentSignatureV2, HEADER.subscription, HEADER.signIn].map((name) =>
  name.toLowerCase(),
);

/** Returns whether a request is a browser's that opens a page. A client that pays already reads JSON. */
function opensPage(request: Pick<GateRequest, "method" | "header">): boolean {
  if (request.method !== "GET" || !prefersHtml(request.header("accept"))) return false;
  return CREDENTIALS.every((name) => request.header(name) === undefined);
}

export interface PageRequest {
  readonly request: Pick<GateRequest, "method" | "header">;
  readonly resource: string;
  readonly presentation: Pick<Presentation, "description" | "mimeType">;
  readonly settings: Pick<Settings, "quoteLifeSec">;
  readonly quote: Quote;
}

/** @returns undefined for clients that get JSON, and where nothing is offered that a browser wallet can pay */
export function pageFor({ request, resource, presentation, settings, quote }: PageRequest): string | undefined {
  if (!opensPage(request)) return undefined;
  const options = optionsOf(quote);
  if (options.length === 0) return undefined;
  const { description, mimeType } = presentation;
  return renderPage({ description, mimeType, resource, quoteLifeSec: settings.quoteLifeSec, options });
}

/** Of two entries with one token, network and payee the cheaper: they are sorted by price. */
function optionsOf({ body, sold }: Pick<Quote, "body" | "sold">): PageOption[] {
  const places = new Set<string>();
  return body.accepts.flatMap((entry, place): PageOption[] => {
    const offer = sold[place];
    if (offer?.kind !== "one-time" || entry.scheme !== "exact" || !isEip3009(entry.extra)) return [];
    const { network, token } = offer.context.settings;
    const target = `${entry.network} ${entry.asset} ${entry.payTo}`;
    if (token?.decimals === undefined || places.has(target)) return [];
    places.add(target);
    const symbol = withoutTurning(token.symbol ?? offer.token.name);
    return [{ chainId: network.chainId, network: shownName(network), symbol, decimals: token.decimals, entry }];
  });
}

/** A network's name for people: "Base", "Base Sepolia", "Local 31337". */
function shownName({ name }: Network): string {
  const words = name.split("-").filter((word) => word !== "mainnet" && word !== "");
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join(" ") || name;
}
