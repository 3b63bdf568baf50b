/**
 * The gate for Express 4 and 5: `app.get("/report", paymentGate({ pricing }), handler)`; the handler reads
 * `req.payment`.
 */
import type { Request } from "express";
import { type ExpressGate, expressGate } from "./adapters/express";
import { type DefaultGateOptions, gateOf } from "./provider/provider";

export { keepBody } from "./adapters/express-parsers";
export { preflight } from "./adapters/node-gate";

export { type ExpressGate, expressGate };

/**
 * Middleware before a route; `req.payment` says who paid how.
 * @throws ConfigError at start-up
 */
export function paymentGate(options: DefaultGateOptions<Request>): ExpressGate {
  return expressGate(gateOf(options));
}
