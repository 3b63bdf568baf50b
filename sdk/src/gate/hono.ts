/** The gate for Hono: `app.get("/report", paymentGate({ pricing }), handler)`; the handler reads `c.get("payment")`. */
import type { Context } from "hono";
import { type HonoGate, honoGate, honoRoutes, type PaidVariables, preflight } from "./adapters/hono";
import { type DefaultGateOptions, gateOf } from "./provider/provider";
import { type PaymentMiddlewareOptions, type PaymentRoutes, routeGates } from "./provider/route-gates";

export type { PaymentMiddlewareOptions, PaymentRoutes, RouteAccept, RoutePayment } from "./provider/route-gates";
export { type HonoGate, honoGate, type PaidVariables, preflight };

/**
 * Middleware before a route; `c.get("payment")` says who paid how.
 * @throws ConfigError at start-up
 */
export function paymentGate(options: DefaultGateOptions<Context>): HonoGate {
  return honoGate(gateOf(options));
}

/**
 * Middleware before all routes, by the name of the stock x402 packages:
 * `app.use(paymentMiddleware({ "GET /report": { accepts: { price: "$0.01" } } }))`.
 * Mount it before the routes.
 * @param further none: those of the stock middleware are refused, with what replaces them
 * @throws ConfigError at start-up
 */
export function paymentMiddleware(
  routes: PaymentRoutes<Context>,
  options: PaymentMiddlewareOptions = {},
  ...further: readonly undefined[]
): HonoGate {
  return honoRoutes(routeGates({ routes, options, further }, honoGate));
}
