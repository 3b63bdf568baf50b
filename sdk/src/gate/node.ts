/** The gate for node:http and for every framework with `(req, res, next)` middleware. */
import type { IncomingMessage } from "node:http";
import { type NodeGate, nodeGate } from "./adapters/node-gate";
import { type DefaultGateOptions, gateOf } from "./provider/provider";

export type { NodeGate, PaidRequest } from "./adapters/node-gate";
export { gated, nodeGate, preflight } from "./adapters/node-gate";

/** Express-style middleware of the provider that `configure()` or the environment named. */
export function paymentGate(options: DefaultGateOptions<IncomingMessage>): NodeGate {
  return nodeGate(gateOf(options));
}
