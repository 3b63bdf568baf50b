/** What a 402 sells, in no dialect: its entries, each with the memo that proves its quote. */
import {
  type ErrorCode,
  HEADER,
  IDEMPOTENCY_KEY_LENGTH,
  issueMemo,
  type PaymentRequiredWire,
  type QuotedFacts,
  randomRef,
  refOfIdempotencyKey,
  type SignedOffer,
} from "../../protocol";
import { byPrice, expiryOf, methodOf, type Offer, type Presentation, schemeOf, soldSingly } from "./offers";
import type { PaymentFlow } from "./payment";
import { type GateRequest, quotedMethod } from "./request";
import type { Settings } from "./settings";

/** Why a request is asked to pay. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly reason?: string;
  readonly message: string;
}

/** What one entry sells, and its memo. */
export interface Entry {
  readonly offer: Offer;
  readonly memo: string;
}

/** The body of a 402, and the header that goes with it. */
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

/** What a 402 is written from. */
export interface QuoteRequest {
  readonly settings: Settings;
  readonly request: Pick<GateRequest, "method" | "header" | "resource">;
  readonly resource: string;
  readonly presentation: Presentation;
  /** by which standard payments of its entries settle */
  readonly flow: PaymentFlow;
  readonly nowSec: number;
  readonly refusal: Refusal;
  /** of the entries that sell one request, in their order; absent or empty: none is signed */
  readonly signedOffers?: readonly SignedOffer[] | undefined;
  /** hex SHA-256, where the route binds bodies */
  readonly bodyHash?: string | undefined;
  readonly body?: Uint8Array | undefined;
  readonly offers: readonly Offer[];
  /** the most that the body's own header may take beside those of other dialects; absent: its own limit alone */
  readonly headerBytes?: number;
  /** whether the quote may be built from a template: offers and refusal are the same objects each time */
  readonly isRecurrent?: boolean;
}

/** Writes the 402s of one route. */
export interface Quotes {
  quote(input: QuoteRequest): Quote;
}

export interface Sold {
  readonly entries: readonly Entry[];
  /** whether one transfer buys one request; false: the entries can only be subscribed to */
  readonly sellsSingly: boolean;
  /** cheapest first */
  readonly plans: readonly (Offer & { readonly kind: "subscription" })[];
}

/** Returns what a 402 sells, cheapest first: single requests, or where there are none, the plans. */
export function soldBy(input: QuoteRequest): Sold {
  const { settings, offers, presentation } = input;
  const ref = refOf(input);
  const plans = offers.filter((offer) => offer.kind === "subscription").sort(byPrice);
  const singly = soldSingly(offers, presentation);
  const sellsSingly = singly.length > 0;
  const entries = (sellsSingly ? singly : plans).map((offer) => ({
    offer,
    memo: issueMemo(settings.memoKeys[0], factsOf(input, offer), ref, expiryOf(offer)),
  }));
  return { entries, sellsSingly, plans };
}

const IDEMPOTENCY_KEY = HEADER.idempotencyKey.toLowerCase();

/** Returns the Idempotency-Key as it was sent. */
export const keyIn = ({ request }: Pick<QuoteRequest, "request">): string | undefined =>
  request.header(IDEMPOTENCY_KEY);

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
