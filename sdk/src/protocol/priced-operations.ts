/**
 * Reads the priced operations of an OpenAPI document, in both conventions of `x-payment-info`. A document is anybody's
 * word: it moves no money, leads to no other origin, and the 402 of an operation decides what it costs.
 */
import { parseAmount } from "./amounts";
import { isObject, type JsonObject } from "./arguments";
import { memberOf } from "./headers";

/** The largest document that is read. */
export const MAX_DOCUMENT_BYTES = 4_194_304;

const MAX_OPERATIONS = 1_000;

const MAX_WAYS = 64;

const MAX_TEXT = 1_000;

const MAX_REFERENCES = 8;

/** The methods of which OpenAPI has operations. */
export const OPERATIONS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"] as const;

/** One way to pay, as a document states it; amounts in base units, absent where they depend on the request. */
export interface StatedWay {
  readonly scheme?: string;
  readonly network?: string;
  readonly asset: string;
  readonly payTo?: string;
  readonly amount?: string;
}

/** What an operation costs, as its document states it. */
export interface StatedPrice {
  /** in whole units of `currency`: equal bounds where the price is fixed; without one nothing is promised */
  readonly price?: { readonly currency?: string; readonly min?: string; readonly max?: string };
  /** of x402 */
  readonly accepts: readonly StatedWay[];
  /** of MPP */
  readonly offers: readonly StatedWay[];
  /** e.g. "x402" and "mpp" */
  readonly protocols: readonly string[];
}

/** An operation that a document states a price of. */
export interface PricedOperation {
  /** upper case */
  readonly method: string;
  /** as the document has it */
  readonly path: string;
  /** its URL, in which `{name}` varies; undefined on another origin than the document's */
  readonly resource: string | undefined;
  readonly description: string | undefined;
  readonly stated: StatedPrice;
  /** the fields of `x-payment-info` that are malformed */
  readonly faults: readonly string[];
  readonly operation: JsonObject;
  /** of the operation, then of its path */
  readonly parameters: readonly unknown[];
}

/** Returns where a site's document is: at /openapi.json, unless the URL names another JSON file. */
export function documentUrlOf(site: string): string {
  const url = new URL(site);
  return url.pathname.endsWith(".json") ? url.href : new URL("/openapi.json", url).href;
}

/** Returns a document's priced operations; undefined where the text is no OpenAPI document of version 3. */
export function pricedOperationsIn(text: string, documentUrl: string): readonly PricedOperation[] | undefined {
  const document = parsed(text);
  if (!document || !/^3\.\d/.test(String(document.openapi))) return undefined;
  const found: PricedOperation[] = [];
  for (const [path, given] of Object.entries(isObject(document.paths) ? document.paths : {})) {
    const item = resolved(document, given);
    if (!path.startsWith("/") || !isObject(item)) continue;
    for (const method of OPERATIONS) {
      const operation = memberOf(item, method);
      const info = memberOf(operation, "x-payment-info");
      if (!isObject(operation) || info === undefined) continue;
      if (found.length >= MAX_OPERATIONS) return found;
      found.push({
        ...{ method: method.toUpperCase(), path, operation, ...statedIn(info) },
        resource: resourceAt(path, serverUrlOf(operation, item, document) ?? "/", documentUrl),
        description: textOf(operation.summary) ?? textOf(operation.description),
        parameters: [...listOf(operation.parameters), ...listOf(item.parameters)].map((each) =>
          resolved(document, each),
        ),
      });
    }
  }
  return found;
}

function parsed(text: string): JsonObject | undefined {
  try {
    const document: unknown = JSON.parse(text);
    return isObject(document) ? document : undefined;
  } catch {
    return undefined;
  }
}

/** Follows references within the document: a bounded number, as they may lead in a circle. */
function resolved(document: JsonObject, given: unknown): unknown {
  let value = given;
  for (let hop = 0; hop < MAX_REFERENCES; hop++) {
    const reference = memberOf(value, "$ref");
    if (typeof reference !== "string") return value;
    if (!reference.startsWith("#/")) return undefined;
    value = document;
    for (const name of reference.slice(2).split("/")) {
      value = memberOf(value, name.replaceAll("~1", "/").replaceAll("~0", "~"));
    }
  }
  return undefined;
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value.slice(0, MAX_WAYS) : []);

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value.slice(0, MAX_TEXT) : undefined;

/**
 * Returns the URL of the first server, with its variables at their defaults; undefined where there is none.
 * @param levels the nearest first: an operation, its path, the document
 */
export function serverUrlOf(...levels: readonly unknown[]): string | undefined {
  const [server] = levels.flatMap((level) => listOf(memberOf(level, "servers")).slice(0, 1));
  const [url, variables] = ["url", "variables"].map((name) => memberOf(server, name));
  if (typeof url !== "string") return undefined;
  return url.replace(/\{([^{}]*)\}/g, (_, name: string) =>
    String(memberOf(memberOf(variables, name), "default") ?? ""),
  );
}

function resourceAt(path: string, url: string, documentUrl: string): string | undefined {
  if (!URL.canParse(url, documentUrl) || /[?#\\\s]/.test(path)) return undefined;
  const { origin, pathname } = new URL(url, documentUrl);
  const resource = `${origin}${pathname.replace(/\/+$/, "")}${path}`;
  const isOwn = origin === new URL(documentUrl).origin && URL.canParse(resource) && new URL(resource).origin === origin;
  return isOwn && resource.length <= 2_048 ? resource : undefined;
}

const FLAT = ["amount", "currency", "description", "intent", "method"];

const DECIMAL = /^(?:0|[1-9]\d{0,40})(?:\.\d{1,40})?$/;

const decimalOf = (value: unknown): string | undefined =>
  typeof value === "string" && DECIMAL.test(value) ? value : undefined;

function statedIn(info: unknown): { readonly stated: StatedPrice; readonly faults: readonly string[] } {
  const faults: string[] = [];
  if (!isObject(info)) return { stated: { accepts: [], offers: [], protocols: [] }, faults: [""] };
  const isFlat = FLAT.some((name) => Object.hasOwn(info, name));
  if (info.offers !== undefined && isFlat) faults.push("offers");
  const given = info.offers === undefined ? (isFlat ? [info] : []) : listOf(info.offers);
  if (info.offers !== undefined && given.length === 0) faults.push("offers");
  const offers = given.flatMap((offer, index) => {
    const [intent, method, amount] = ["intent", "method", "amount"].map((name) => memberOf(offer, name));
    const isKnown = amount === null || parseAmount(amount) !== undefined;
    if (typeof intent !== "string" || typeof method !== "string" || !isKnown) {
      faults.push(info.offers === undefined ? "" : `offers[${index}]`);
      return [];
    }
    const asset = textOf(memberOf(offer, "currency")) ?? "";
    return [{ asset, ...(typeof amount === "string" && { amount }) }];
  });
  const listed = listOf(info.protocols);
  const protocols = [
    ...new Set(listed.flatMap((each) => (isObject(each) ? Object.keys(each).slice(0, 1) : (textOf(each) ?? [])))),
  ];
  const accepts = listed.flatMap((each) => listOf(memberOf(memberOf(each, "x402"), "accepts"))).flatMap(wayOf);
  const price = priceOf(info.price, faults);
  return { stated: { ...(price && { price }), accepts, offers, protocols }, faults };
}

function wayOf(entry: unknown): StatedWay[] {
  const [scheme, network, asset, payTo] = ["scheme", "network", "asset", "payTo"].map((name) =>
    textOf(memberOf(entry, name)),
  );
  const amount = memberOf(entry, "amount");
  if (asset === undefined) return [];
  const named = { ...(scheme && { scheme }), ...(network && { network }), ...(payTo && { payTo }) };
  return [{ ...named, asset, ...(typeof amount === "string" && parseAmount(amount) !== undefined && { amount }) }];
}

function priceOf(price: unknown, faults: string[]): StatedPrice["price"] {
  if (price === undefined) return undefined;
  const [mode, amount, min, max] = ["mode", "amount", "min", "max"].map((name) => memberOf(price, name));
  // A text alone is how the convention began.
  const isFixed = typeof price === "string" || mode === "fixed";
  const fixed = typeof price === "string" ? price : amount;
  const bounds = isFixed ? [fixed, fixed] : [min, max];
  const isSound = bounds.every((each) => decimalOf(each) !== undefined || (mode === "dynamic" && each === undefined));
  if (!isSound) {
    faults.push("price");
    return undefined;
  }
  const [least, most] = bounds.map(decimalOf);
  if (least === undefined && most === undefined) return {};
  const currency = textOf(memberOf(price, "currency"));
  return { ...(currency && { currency }), ...(least && { min: least }), ...(most && { max: most }) };
}
