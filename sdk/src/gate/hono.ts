/** The gate for Hono: `app.get("/report", paymentGate({ pricing }), handler)`; the handler reads `c.get("payment")`. */
import type { Context } from "hono";
import { type HonoGate, honoGate, type PaidVariables, preflight } from "./adapters/hono";
import { type DefaultGateOptions, gateOf } from "./provider/provider";

export { type HonoGate, honoGate, type PaidVariables, preflight };

/**
 * Middleware before a route; `c.get("payment")` says who paid how.
 * @throws ConfigError at start-up
 */
export function paymentGate(options: DefaultGateOptions<Context>): HonoGate {
  return honoGate(gateOf(options));
}
