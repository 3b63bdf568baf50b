/**
 * Builds PAYMENT-REQUIRED, the quote that clients of x402 version 2 read, with its `extensions`, the most important first.
 * It stays within its limit: a header that is too long is cut by servers and proxies, and nobody could pay.
 */
import type { Plan } from "../../../chain/plans";
import {
  caip2Of,
  EXTENSION,
  encodeHeaderText,
  HEADER,
  MAX_PAYMENT_REQUIRED_HEADER_BYTES,
  periodOf,
  type SignedOffer,
  type SignedReceipt,
  SUBSCRIPTION_SCHEME,
  shortResourceOf,
  utf8ToBytes,
} from "../../../protocol";
import { type Discovery, type Entry, MAX_TIMEOUT_SEC, type QuoteRequest, schemeOf, wayOf } from "../../core/offers";
import type { Settings } from "../../core/settings";
import { SPONSORING } from "../../methods";
import { type SignInPlace, signInChallenge } from "../../schemes/subscription/sign-in";

/** What a header is built from. */
export type HeaderRequest = Pick<
  QuoteRequest,
  "settings" | "request" | "resource" | "presentation" | "flow" | "nowSec" | "refusal" | "signedOffers" | "headerBytes"
>;

/** What a quote sells by the header. */
export interface HeaderContents {
  readonly entries: readonly Entry[];
  readonly sellsSingly: boolean;
  readonly plans: readonly Plan[];
}

export interface QuoteHeader {
  /** undefined where nothing that can be paid fits */
  readonly value: string | undefined;
  /** what it lacks as it would be too long */
  readonly cuts: readonly string[];
}

/** Returns what the header may take, beside those of other dialects. */
export const maxHeaderBytesOf = ({ headerBytes = MAX_PAYMENT_REQUIRED_HEADER_BYTES }: HeaderRequest): number =>
  Math.max(0, Math.min(headerBytes, MAX_PAYMENT_REQUIRED_HEADER_BYTES));

/**
 * Leaves out what does not fit, in this order: the end of the description, extensions from the last on, the dearest
 * entries. Where only plans are offered extensions outlast entries, since subscribers sign in through them: the entries
 * only let stock clients parse the header.
 */
export function headerV2Of(input: HeaderRequest, contents: HeaderContents): QuoteHeader {
  const { resource, presentation, refusal } = input;
  // Of JSON, whose base64 is a third longer.
  const maxTextBytes = Math.floor(maxHeaderBytesOf(input) / 4) * 3;
  const { description, mimeType } = presentation;
  const accepts = acceptsOf(input, contents);
  const extensionsFor = extensionLists(input, contents);
  const url = shortResourceOf(resource);
  const textOf = (count: number, extensions: readonly Extension[], shown: string): string =>
    JSON.stringify({
      x402Version: 2,
      error: refusal.code,
      resource: { url, description: shown, mimeType },
      accepts: accepts.slice(0, count),
      ...(extensions.length > 0 ? { extensions: Object.fromEntries(extensions) } : {}),
    });
  for (const { count, extensions } of sizes(accepts.length, extensionsFor, contents.sellsSingly)) {
    const left = maxTextBytes - bytesOf(textOf(count, extensions, ""));
    if (left < 0) continue;
    const shown = startOf(description, left);
    const dropped = extensionsFor(accepts.length).slice(extensions.length);
    const cuts = [
      ...(url === resource ? [] : ["the end of the URL"]),
      ...(shown === description ? [] : [`the description after ${[...shown].length} characters`]),
      ...dropped.map(([key]) => `the extension ${key}`),
      ...(count < accepts.length ? [`${accepts.length - count} of ${accepts.length} prices`] : []),
    ];
    return { value: encodeHeaderText(textOf(count, extensions, shown)), cuts };
  }
  return { value: undefined, cuts: ["everything"] };
}

function acceptsOf({ flow }: HeaderRequest, { entries, sellsSingly }: HeaderContents): readonly object[] {
  return entries.map(({ offer, memo }) => {
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
}

/** Returns the extensions beside so many entries, the most important first. */
function extensionLists(
  { settings, request, resource, presentation, nowSec, signedOffers = [] }: HeaderRequest,
  { entries, sellsSingly, plans }: HeaderContents,
): (count: number) => readonly Extension[] {
  const { metered, discovery } = presentation;
  const place = { method: request.method, resource };
  const sponsorsGas = entries.some(({ offer }) => offer.kind === "one-time" && offer.sponsorsGas);
  const others = extensionsOf({ settings, place, plans, metered, sellsSingly, sponsorsGas, discovery, nowSec });
  // The challenge repeats the URL. Who cannot sign in by a long one can still subscribe, and show the id.
  const fitting = shortResourceOf(resource) === resource ? others : others.filter(([key]) => key !== EXTENSION.signIn);
  if (!sellsSingly || signedOffers.length === 0) return () => fitting;
  // A payer without gas can pay without the signed offers, and not without the sponsoring: that is dropped last.
  const before = sponsorsGas ? 1 : 0;
  return (count) => fitting.toSpliced(before, 0, offersExtension(signedOffers.slice(0, count)));
}

interface Size {
  readonly count: number;
  readonly extensions: readonly Extension[];
}

/** Yields what to try, the most first. Stock clients need one entry; plans alone, one extension. */
function* sizes(
  accepts: number,
  extensionsFor: (count: number) => readonly Extension[],
  sellsSingly: boolean,
): Generator<Size> {
  const most = extensionsFor(0).length;
  const size = (count: number, kept: number): Size => ({ count, extensions: extensionsFor(count).slice(0, kept) });
  if (sellsSingly) {
    for (let count = accepts; count > 0; count--) for (let kept = most; kept >= 0; kept--) yield size(count, kept);
    return;
  }
  for (let kept = most; kept > 0; kept--) for (let count = accepts; count > 0; count--) yield size(count, kept);
}

const bytesOf = (text: string): number => utf8ToBytes(text).byteLength;

/** What a text takes inside JSON. */
const jsonBytesOf = (text: string): number => bytesOf(JSON.stringify(text)) - 2;

const ELLIPSIS = "…";

/** Returns as much of a text as fits, in whole characters as people see them: an emoji may be several code points. */
function startOf(text: string, maxBytes: number): string {
  if (jsonBytesOf(text) <= maxBytes) return text;
  let left = maxBytes - jsonBytesOf(ELLIPSIS);
  let start = "";
  // No character takes less than a byte, so the rest of a very long text is not looked at.
  for (const { segment } of new Intl.Segmenter().segment(text.slice(0, maxBytes))) {
    left -= jsonBytesOf(segment);
    if (left < 0) return start === "" ? "" : `${start.trimEnd()}${ELLIPSIS}`;
    start += segment;
  }
  return start;
}

export interface ExtensionFacts {
  readonly settings: Settings;
  readonly place: SignInPlace;
  readonly plans: readonly Plan[];
  readonly metered: boolean;
  readonly sellsSingly: boolean;
  /** whether payers without gas may send the token's permit along */
  readonly sponsorsGas: boolean;
  readonly discovery: Discovery | undefined;
  readonly nowSec: number;
}

/** Its name, and what the header says by it. */
export type Extension = readonly [key: string, value: object];

const SCHEMA = "https://json-schema.org/draft/2020-12/schema";

/** Returns the extensions in order of importance: the last are dropped first when the header is too large. */
export function extensionsOf(facts: ExtensionFacts): Extension[] {
  const { settings, place, plans, metered, sellsSingly, sponsorsGas, discovery, nowSec } = facts;
  const extensions: Extension[] = [];
  if (sponsorsGas) extensions.push(SPONSORING);
  if (sellsSingly) extensions.push(PAYMENT_IDENTIFIER);
  if (plans.length > 0) {
    const supportedChains = [{ chainId: caip2Of(settings.network.chainId), type: "eip191" }];
    extensions.push([
      EXTENSION.signIn,
      { info: signInChallenge(settings, place, nowSec), supportedChains, schema: SIGN_IN_SCHEMA },
    ]);
    extensions.push([EXTENSION.service, { info: serviceInfo(settings, plans, metered), schema: SERVICE_SCHEMA }]);
  }
  if (discovery) extensions.push([EXTENSION.discovery, discoveryOf(place.method, discovery)]);
  return extensions;
}

/** The signed offers of the header's entries, in their order. */
export const offersExtension = (offers: readonly SignedOffer[]): Extension => [
  EXTENSION.offerReceipt,
  {
    info: { offers: offers.map((offer, acceptIndex) => ({ ...offer, acceptIndex })) },
    schema: statementSchema("offers", "array"),
  },
];

/** A signed receipt, for the answer that it confirms. */
export const receiptExtension = (receipt: SignedReceipt): Readonly<Record<string, object>> => ({
  [EXTENSION.offerReceipt]: { info: { receipt }, schema: statementSchema("receipt", "object") },
});

const statementSchema = (field: "offers" | "receipt", type: "array" | "object") => ({
  $schema: SCHEMA,
  type: "object",
  properties: { [field]: { type } },
  required: [field],
});

const PAYMENT_IDENTIFIER: Extension = [
  EXTENSION.paymentIdentifier,
  {
    info: { required: false },
    schema: {
      $schema: SCHEMA,
      type: "object",
      properties: {
        required: { type: "boolean" },
        id: { type: "string", minLength: 16, maxLength: 128, pattern: "^[a-zA-Z0-9_-]+$" },
      },
      required: ["required"],
    },
  },
];

const SIGN_IN_SCHEMA = {
  $schema: SCHEMA,
  type: "object",
  required: ["domain", "address", "uri", "version", "chainId", "type", "nonce", "issuedAt", "signature"],
};

/**
 * Lists the plans as the body's `plans` does; clients subscribe through the Facilitator and send the id in this header.
 */
function serviceInfo(settings: Settings, plans: readonly Plan[], metered: boolean) {
  return {
    subscriptionScheme: true,
    facilitator: settings.facilitator?.url ?? "",
    header: HEADER.subscription,
    ...(settings.deployment ? { turnpike: settings.deployment.turnpike } : {}),
    plans: plans.map(({ planId, amount, intervalSec, months, token, payTo }) => ({
      planId,
      amount: amount.toString(),
      interval: intervalSec,
      ...(months > 0 && { period: periodOf({ intervalSec, months }) }),
      network: caip2Of(settings.network.chainId),
      token,
      payTo,
      metered,
    })),
  };
}

const SERVICE_SCHEMA = { $schema: SCHEMA, type: "object", required: ["facilitator", "plans"] };

const QUERY_METHODS = new Set(["GET", "HEAD", "DELETE"]);

function discoveryOf(method: string, { queryParams, body, bodyType = "json", output }: Discovery): object {
  const isQuery = QUERY_METHODS.has(method);
  const input = isQuery
    ? { type: "http", method, ...(queryParams ? { queryParams } : {}) }
    : { type: "http", method, bodyType, body: body ?? {}, ...(queryParams ? { queryParams } : {}) };
  const required = isQuery ? ["type", "method"] : ["type", "method", "bodyType", "body"];
  return {
    info: { input, ...(output ? { output } : {}) },
    schema: {
      $schema: SCHEMA,
      type: "object",
      properties: { input: { type: "object", required } },
      required: ["input"],
    },
  };
}
