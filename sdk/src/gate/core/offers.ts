/** Ways to pay for one request: the price, payee and token of each, and which of them one transfer buys. */
import type { Plan } from "../../chain/plans";
import { type Address, ConfigError } from "../../protocol";
import { parseStrictJson } from "../../protocol/strict-json";
import { eip3009, type Method, type OfferedTerms, type SchemeName } from "../methods";
import type { GateTime } from "./chain-follower";
import type { PaymentFlow } from "./payment";
import { MAX_DECIMALS, type Settings } from "./settings";
import type { TokenTerms } from "./terms";

/** Where an offer is paid: its network, Facilitator and chain time. */
export interface OfferContext {
  readonly settings: Settings;
  readonly time: Pick<GateTime, "latestSec">;
}

interface OfferTerms {
  readonly context: OfferContext;
  readonly amount: bigint;
  readonly payTo: Address;
  readonly token: TokenTerms;
}

export type Offer =
  /** of the scheme `upto`, `amount` is the maximum */
  | (OfferTerms & OfferedTerms & { readonly kind: "one-time"; readonly scheme: SchemeName; readonly method: Method })
  | (OfferTerms & { readonly kind: "subscription"; readonly plan: Plan });

/** What the provider says of the route; shown to clients. */
export interface Presentation {
  readonly description: string;
  readonly mimeType: string;
  readonly metered: boolean;
  /** whether clients of x402 version 2 get their header */
  readonly x402v2: boolean;
  readonly discovery?: Discovery | undefined;
  /** whether anyone may buy a single request at a plan's price where nothing else is offered */
  readonly sellSingleAtPlanPrice: boolean;
}

/** Cheapest first, in whole tokens; entries of one price stay in the provider's order. */
export function byPrice(a: Offer, b: Offer): number {
  const [ours, theirs] = [comparable(a), comparable(b)];
  return ours < theirs ? -1 : ours > theirs ? 1 : 0;
}

/** Tokens whose decimals are not set count as the usual stablecoin. */
const USUAL_DECIMALS = 6;

const comparable = ({ amount, context }: Offer): bigint =>
  amount * 10n ** BigInt(MAX_DECIMALS - (context.settings.token?.decimals ?? USUAL_DECIMALS));

/** Returns the method of an offer that one transfer buys. */
export const methodOf = (offer: Offer): Method => (offer.kind === "one-time" ? offer.method : eip3009);

/** Returns the scheme of an offer that one transfer buys. */
export const schemeOf = (offer: Offer): SchemeName => (offer.kind === "one-time" ? offer.scheme : "exact");

/** Returns the offers that a client of version 1 can pay, cheapest first. */
export const soldInVersion1 = (offers: readonly Offer[], presentation: SinglesPresentation): readonly Offer[] =>
  soldSingly(offers, presentation).filter((offer) => methodOf(offer).isOfVersion1);

type SinglesPresentation = Pick<Presentation, "sellSingleAtPlanPrice">;

/** Returns until when an offer's quote holds, unix seconds by the clock of its own chain, or the machine's where that is later. */
export const expiryOf = ({ context: { settings, time } }: Offer): number => time.latestSec() + settings.quoteLifeSec;

/**
 * Returns the offers that buy one request by one transfer, cheapest first: stock clients take the first entry that they
 * can pay. A plan's price is among them only where the route's options say so.
 */
export function soldSingly(offers: readonly Offer[], { sellSingleAtPlanPrice }: SinglesPresentation): readonly Offer[] {
  const oneTime = offers.filter(({ kind }) => kind === "one-time").sort(byPrice);
  return oneTime.length === 0 && sellSingleAtPlanPrice ? [...offers].sort(byPrice) : oneTime;
}

/** Seconds that a stock client's authorization may live. Less than a quote's life, so that it ends before the quote. */
export const MAX_TIMEOUT_SEC = 300;

/**
 * What an entry says of the way that its money moves. It names its flow where that is not the scheme's default; `upto` has
 * one flow.
 */
export function wayOf(offer: Offer, flow: PaymentFlow): Readonly<Record<string, string>> {
  const { facilitatorAddress } = offer.kind === "one-time" ? offer : {};
  return {
    ...(flow === "upfront" && schemeOf(offer) === "exact" && { paymentFlow: flow }),
    ...methodOf(offer).extra,
    ...(facilitatorAddress && { facilitatorAddress }),
  };
}

/** How to call a resource, for catalogues and documents that list it. Shown to everybody. */
export interface Discovery {
  /** where the gate is mounted, in the notation of `paymentMiddleware`: "/users/:id". Listed by `openApi` only with it */
  readonly path?: string;
  /** "GET": the method that is sold there; default: every one, as `paymentMiddleware` reads a pattern without a method */
  readonly method?: string;
  /** e.g. { symbol: "ABC" }; of GET, HEAD and DELETE */
  readonly queryParams?: Readonly<Record<string, unknown>>;
  /** an example of the body; of the other methods */
  readonly body?: Readonly<Record<string, unknown>>;
  /** default "json" */
  readonly bodyType?: "json" | "form-data" | "text";
  /** an example of what comes back */
  readonly output?: { readonly type?: string; readonly example?: unknown };
}

/** Clients echo it in their payload, whose nesting is limited. */
const MAX_DISCOVERY_DEPTH = 4;

/**
 * Returns what clients are shown of the call, which is not where it is.
 * @throws ConfigError for what clients could not echo: their payments would be refused
 */
export function checkDiscovery(discovery: Discovery | undefined): Discovery | undefined {
  if (discovery === undefined) return undefined;
  if (!canEcho(discovery)) {
    throw new ConfigError(
      `discovery is no JSON that clients could echo: use at most ${MAX_DISCOVERY_DEPTH} levels, and no NUL or name such as __proto__`,
    );
  }
  const { path, method: _method, ...call } = discovery;
  return path !== undefined && Object.keys(call).length === 0 ? undefined : call;
}

function canEcho(discovery: Discovery): boolean {
  try {
    return parseStrictJson(JSON.stringify(discovery), MAX_DISCOVERY_DEPTH) !== undefined;
  } catch {
    // A bigint, or an object within itself.
    return false;
  }
}
