/** Creates the gates of `paymentMiddleware`'s routes, with one matcher over them. */
import { ConfigError } from "../../protocol";
import { isObject } from "../../protocol/strict-json";
import { gateOptionsOf, type PaymentRoutes } from "../core/payment-routes";
import type { Gate } from "../decision/gate";
import { createRouteMatcher, type RouteGates } from "../decision/route-match";
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
  const wrapped = Object.entries(routes).map(([pattern, route]): [string, T] => {
    const gate = gateOf<Req>({ ...gateOptionsOf(pattern, route), ...options });
    const behind = wrap(gate);
    gates.set(behind, gate);
    return [pattern, behind];
  });
  return { ...createRouteMatcher(Object.fromEntries(wrapped)), gates };
}
