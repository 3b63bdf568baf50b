/** Creates the gates of `paymentMiddleware`'s routes, with one matcher over them. */
import { ConfigError } from "../../protocol";
import type { Gate } from "../core/gate";
import { gateOptionsOf, type PaymentRoutes } from "../core/payment-routes";
import { createRouteMatcher, type RouteMatcher } from "../core/route-match";
import { gateOf, type Provider } from "./provider";

/** What all routes of one `paymentMiddleware` share. */
export interface PaymentMiddlewareOptions {
  /** default: the one that configure() or the environment named */
  readonly provider?: Provider;
}

/**
 * @param wrap makes the framework's middleware of one route's gate
 * @throws ConfigError for a pattern or a price that could not be enforced as written
 */
export function routeGates<Req, T>(
  routes: PaymentRoutes<Req>,
  options: PaymentMiddlewareOptions,
  wrap: (gate: Gate) => T,
): RouteMatcher<T> & { readonly all: readonly Gate[] } {
  if (typeof routes !== "object" || routes === null) {
    throw new ConfigError(
      "paymentMiddleware takes the routes first; payTo and facilitator belong into accepts or configure()",
    );
  }
  const surplus = Object.keys(options).find((name) => name !== "provider");
  if (surplus !== undefined || (options.provider && typeof options.provider.gate !== "function")) {
    throw new ConfigError(
      "paymentMiddleware takes { provider } second, and no server or facilitator client of stock x402",
    );
  }
  const gates: Gate[] = [];
  const wrapped = Object.entries(routes).map(([pattern, route]): [string, T] => {
    const gate = gateOf<Req>({ ...gateOptionsOf(pattern, route), ...options });
    gates.push(gate);
    return [pattern, wrap(gate)];
  });
  return { ...createRouteMatcher(Object.fromEntries(wrapped)), all: gates };
}
