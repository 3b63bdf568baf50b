/** The gate for Fastify 4 and 5: `app.get("/report", { preHandler: paymentGate({ pricing }) }, handler)`. */
import type { FastifyRequest } from "fastify";
import { type FastifyGate, fastifyGate, preflight } from "./adapters/fastify";
import { type DefaultGateOptions, gateOf } from "./provider/provider";

export { type FastifyGate, fastifyGate, preflight };

/**
 * A hook before a route; `request.payment` says who paid how.
 * @throws ConfigError at start-up
 */
export function paymentGate(options: DefaultGateOptions<FastifyRequest>): FastifyGate {
  return fastifyGate(gateOf(options));
}
