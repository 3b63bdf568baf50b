/**
 * The gate for Express 4 and 5: `app.get("/report", paymentGate({ pricing }), handler)`; the handler reads
 * `req.payment`.
 */
import type { Request } from "express";
import { type ExpressGate, expressGate, expressRoutes } from "./adapters/express";
import { type DefaultGateOptions, gateOf } from "./provider/provider";
import { type PaymentMiddlewareOptions, type PaymentRoutes, routeGates } from "./provider/route-gates";

export { keepBody } from "./adapters/express-parsers";
export { preflight } from "./adapters/node-gate";
export type { PaymentMiddlewareOptions, PaymentRoutes, RouteAccept, RoutePayment } from "./provider/route-gates";
export { type ExpressGate, expressGate };

/**
 * Middleware before a route; `req.payment` says who paid how.
 * @throws ConfigError at start-up
 */
export function paymentGate(options: DefaultGateOptions<Request>): ExpressGate {
  return expressGate(gateOf(options));
}

/**
 * Middleware before all routes, by the name of the stock x402 packages:
 * `app.use(paymentMiddleware({ "GET /report": { accepts: { price: "$0.01" } } }))`.
 * Mount it before the routes, and after whatever changes a request's URL or method.
 * @param further none: those of the stock middleware are refused, with what replaces them
 * @throws ConfigError at start-up
 */
export function paymentMiddleware(
  routes: PaymentRoutes<Request>,
  options: PaymentMiddlewareOptions = {},
  ...further: readonly undefined[]
): ExpressGate {
  return expressRoutes(routeGates({ routes, options, further }, expressGate));
}
