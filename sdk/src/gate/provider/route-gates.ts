/** Creates the gates of `paymentMiddleware`'s routes, with one matcher over them. */
import { ConfigError } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { GATE_FIELDS, type GateOptions, type RouteOptions } from "../core/gate-options";
import type { Discovery } from "../core/offers";
import type { AcceptOption, PricingEntry } from "../core/pricing";
import { decideOn, type Gate } from "../decision/gate";
import { createRouteMatcher, type RouteGates, type RouteMatcher } from "../decision/route-match";
import { isOperation, placeOf, samplePathOf } from "../discovery/place";
import { gateOf, type Provider } from "./provider";

/** What all routes of one `paymentMiddleware` share. */
export interface PaymentMiddlewareOptions {
  /** default: the one that configure() or the environment named */
  readonly provider?: Provider;
}

/** What `paymentMiddleware` was called with. */
export interface MiddlewareArguments<Req> {
  readonly routes: PaymentRoutes<Req>;
  readonly options: PaymentMiddlewareOptions;
  /** what the stock middleware takes after these, and this one does not */
  readonly further: readonly unknown[];
}

/** From the third on, as stock packages name them. */
const STOCK_ARGUMENTS: readonly (readonly [name: string, remedy: string])[] = [
  ["paywallConfig", "set page: true of a route for a page on which people pay"],
  ["paywall", "set page: true of a route for a page on which people pay"],
  ["syncFacilitatorOnStart", "await ready() of the middleware"],
];

/** @throws ConfigError naming the argument that would have no effect, and what replaces it */
function requireKnownArguments({ routes, options, further }: MiddlewareArguments<never>): void {
  const refused = (why: string) => new ConfigError(`paymentMiddleware: ${why}`);
  if (typeof routes !== "object" || routes === null) {
    throw refused("the first argument is no routes; payTo and facilitator belong into accepts or configure()");
  }
  const given: unknown = options;
  const isPlain = isObject(given) && [Object.prototype, null].includes(Object.getPrototypeOf(given));
  const surplus = isPlain ? Object.keys(given).find((name) => name !== "provider") : "";
  if (surplus !== undefined) {
    const field = surplus === "" ? "" : `.${surplus}`;
    throw refused(
      `the second argument${field} has no effect: configure() or { provider } name the Facilitator and the network, in place of a server, Facilitator clients and schemes of stock x402`,
    );
  }
  if (options.provider !== undefined && typeof options.provider?.gate !== "function") {
    throw refused("the second argument's provider is none: give it what createProvider() returns");
  }
  const place = further.findIndex((value) => value !== undefined);
  if (place < 0) return;
  const [name, remedy] = STOCK_ARGUMENTS[place] ?? ["", "remove it"];
  throw refused(`argument ${place + 3}${name && ` (stock: ${name})`} has no effect: ${remedy}`);
}

/**
 * @param wrap makes the framework's middleware of one route's gate
 * @throws ConfigError for a pattern or a price that could not be enforced as written, and for arguments without effect
 */
export function routeGates<Req, T>(given: MiddlewareArguments<Req>, wrap: (gate: Gate) => T): RouteGates<T> {
  requireKnownArguments(given as MiddlewareArguments<never>);
  const { routes, options } = given;
  const gates = new Map<T, Gate>();
  const patterns = createRouteMatcher(Object.fromEntries(Object.keys(routes).map((pattern) => [pattern, pattern])));
  const wrapped = Object.entries(routes).map(([pattern, route]): [string, T] => {
    const gateOptions = gateOptionsOf(pattern, route);
    const discovery = placedAt(pattern, patterns, gateOptions.discovery);
    const gate = gateOf<Req>({ ...gateOptions, ...(discovery && { discovery }), ...options });
    const isMountedElsewhere = gateOptions.discovery?.path !== undefined;
    if (!isMountedElsewhere) decideOn(gate, (method, path) => patterns.first(method, path) === pattern);
    const behind = wrap(gate);
    gates.set(behind, gate);
    return [pattern, behind];
  });
  return { ...createRouteMatcher(Object.fromEntries(wrapped)), gates };
}

/**
 * Names a route's place, for the document that `openApi` serves; a path of its own goes before its pattern's. Not named is
 * what an earlier pattern decides on, or a method that OpenAPI does not have.
 */
function placedAt(
  pattern: string,
  patterns: RouteMatcher<string>,
  discovery: Discovery | undefined,
): Discovery | undefined {
  if (discovery !== undefined && (!isObject(discovery) || discovery.path !== undefined)) return discovery;
  const place = placeOf(pattern);
  const { method, parts } = place;
  const isAny = method === "*";
  const isDecided = patterns.first(isAny ? "GET" : method, samplePathOf(place)) !== pattern;
  if (isDecided || !(isAny || isOperation(method))) return discovery;
  return { ...discovery, path: parts.join(""), ...(!isAny && { method }) };
}

/** One entry of `accepts`: a price, and optionally where it is paid. */
export type RouteAccept<Req = unknown> = AcceptOption<Req> & {
  /** the only scheme */
  readonly scheme?: "exact";
};

/** What a request of a route costs. */
export type RoutePayment<Req = unknown> =
  | GateOptions<Req>
  | (RouteOptions<Req> & {
      readonly accepts: RouteAccept<Req> | readonly RouteAccept<Req>[];
      readonly price?: undefined;
      readonly pricing?: undefined;
    });

/** `{ "GET /report": { accepts: { price: "$0.01" } } }`: the first pattern that fits a request decides. */
export type PaymentRoutes<Req = unknown> = Readonly<Record<string, RoutePayment<Req>>>;

const ACCEPT_FIELDS: Readonly<Record<keyof RouteAccept, true>> = {
  scheme: true,
  price: true,
  amount: true,
  network: true,
  token: true,
  payTo: true,
  facilitator: true,
  rpcUrl: true,
};

const ROUTE_FIELDS = ["accepts", ...GATE_FIELDS];

/** @throws ConfigError naming the route and the field that would have no effect */
export function gateOptionsOf<Req>(pattern: string, route: RoutePayment<Req>): GateOptions<Req> {
  const refused = (field: string, why: string) => new ConfigError(`paymentMiddleware: "${pattern}"${field} ${why}`);
  if (typeof route !== "object" || route === null) {
    throw refused("", 'must be { accepts: { price: "$0.01" } }, or the options of paymentGate');
  }
  const surplus = Object.keys(route).find((field) => !ROUTE_FIELDS.includes(field));
  if (surplus) throw refused(`.${surplus}`, "is no option: see the guide on stock x402 for what replaces it");
  const method = /^([a-z]+)\s/i.exec(pattern.trim())?.[1] ?? "GET";
  if (route.page && method.toUpperCase() !== "GET")
    throw refused(".page", "is for GET: name that method, or remove it");
  if (!("accepts" in route)) return route as GateOptions<Req>;
  const { accepts, price, pricing, ...options } = route;
  if (pricing !== undefined) throw refused("", "has accepts and pricing: keep one");
  if (price !== undefined) throw refused("", "has accepts and price: keep one");
  const list = Array.isArray(accepts) ? accepts : [accepts];
  const prices = list.map((entry: RouteAccept<Req>, index): AcceptOption<Req> => {
    const field = `.accepts[${index}]`;
    const unknown = Object.keys(entry ?? {}).find((name) => !Object.hasOwn(ACCEPT_FIELDS, name));
    if (unknown) throw refused(`${field}.${unknown}`, "is no option of a price: see the guide on stock x402");
    const { scheme, ...price }: Omit<AcceptOption<Req>, "scheme"> & { readonly scheme?: string } = entry ?? {};
    if (scheme === "upto")
      throw refused(`${field}.scheme`, 'is "upto": give pricing: [{ type: "upto", max: "$0.50" }] in place of accepts');
    if (scheme !== undefined && scheme !== "exact") throw refused(`${field}.scheme`, `is "${scheme}": use "exact"`);
    return price as AcceptOption<Req>;
  });
  const entry: PricingEntry<Req> = { type: "one-time", prices };
  return { ...options, pricing: [entry] };
}
