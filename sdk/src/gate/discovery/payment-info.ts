/**
 * Writes the `x-payment-info` of an operation, in both conventions: `offers` of the draft of MPP, `price` and `protocols`
 * of the catalogues. All of it comes from the offers that 402s are written from.
 */
import { caip2Of, type JsonObject } from "../../protocol";
import { decimalText } from "../../protocol/decimal-text";
import { type Offer, type Presentation, schemeOf, soldInVersion1, soldSingly } from "../core/offers";
import { MAX_DECIMALS } from "../core/settings";
import type { Place } from "./place";

/** What a document says of a gate whose place is known. */
export interface ListedRoute {
  readonly place: Place;
  readonly presentation: Presentation;
  /** Returns every option, whatever is asked for; an amount of 0 depends on the request. @throws ConfigError, Unavailable */
  offers(): Promise<readonly Offer[]>;
  /** Returns by which methods of MPP an offer can be paid. */
  charges(offer: Offer): readonly { readonly method: string; readonly intent: string }[];
  /** Returns whether it decides on a plain path; only of gates before the whole application. */
  decides?(method: string, path: string): boolean;
}

/** Returns what a route costs; undefined where it sells nothing now. */
export async function paymentInfoOf(route: ListedRoute): Promise<JsonObject | undefined> {
  const { presentation } = route;
  const offers = await route.offers();
  if (offers.length === 0) return undefined;
  const single = soldSingly(offers, presentation);
  const byX402 = presentation.x402v2 ? single : soldInVersion1(offers, presentation);
  const charges = single.flatMap((offer) => route.charges(offer).map((way) => ({ offer, way })));
  const plans = offers.filter((offer) => offer.kind === "subscription");
  const protocols = [
    ...(byX402.length > 0 ? [{ x402: { accepts: byX402.map(acceptOf) } }] : []),
    ...charges.map(({ offer, way }) => ({ mpp: { ...way, currency: offer.token.address } })),
    ...(plans.length > 0 ? [{ turnpike: { plans: plans.map((offer) => planOf(offer, presentation)) } }] : []),
  ];
  const asCharges = charges.map(({ offer, way }) => ({
    ...{ intent: way.intent, method: way.method },
    amount: offer.amount === 0n ? null : offer.amount.toString(),
    currency: offer.token.address,
  }));
  return { price: priceOf(single), protocols, ...(asCharges.length > 0 && { offers: asCharges }) };
}

/** The amount is in base units, and absent where it depends on the request; of the scheme `upto` it is the maximum. */
const acceptOf = (offer: Offer) => ({
  scheme: schemeOf(offer),
  network: caip2Of(offer.context.settings.network.chainId),
  asset: offer.token.address,
  payTo: offer.payTo,
  ...(offer.amount > 0n && { amount: offer.amount.toString() }),
});

const planOf = (offer: Extract<Offer, { kind: "subscription" }>, { metered }: Presentation) => ({
  planId: offer.plan.planId,
  network: caip2Of(offer.context.settings.network.chainId),
  token: offer.token.address,
  payTo: offer.payTo,
  amount: offer.amount.toString(),
  interval: offer.plan.intervalSec,
  metered,
});

/**
 * Returns what one request costs in dollars: a figure is never written without a currency, as readers take it for dollars.
 * "dynamic" without bounds where it depends on the request, or no token is known to be worth a dollar.
 */
function priceOf(single: readonly Offer[]): JsonObject {
  const inDollars = single.filter(({ token, context: { settings } }) => {
    const { address, currency, decimals } = settings.token ?? {};
    return address === token.address && currency === "USD" && decimals !== undefined;
  });
  if (inDollars.length === 0 || inDollars.some(({ amount }) => amount === 0n)) return { mode: "dynamic" };
  // Cheapest first.
  const amounts = inDollars.map(comparable);
  const isUsed = inDollars.some((offer) => schemeOf(offer) === "upto");
  const [min, max] = [text(isUsed ? 0n : (amounts[0] ?? 0n)), text(amounts.at(-1) ?? 0n)];
  return min === max ? { mode: "fixed", currency: "USD", amount: max } : { mode: "dynamic", currency: "USD", min, max };
}

/** In the smallest unit that any token has. */
const comparable = ({ amount, context: { settings } }: Offer): bigint =>
  amount * 10n ** BigInt(MAX_DECIMALS - (settings.token?.decimals ?? 0));

const text = (amount: bigint): string => decimalText(amount, MAX_DECIMALS);
