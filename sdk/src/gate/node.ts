/** The gate for node:http and for every framework with `(req, res, next)` middleware. */
import type { IncomingMessage } from "node:http";
import { type DefaultGateOptions, gateOf } from "./default-provider";
import { type NodeGate, nodeGate } from "./node-gate";

export { gated, type NodeGate, nodeGate, type PaidRequest } from "./node-gate";
export { preflight } from "./preflight";

/** Express-style middleware of the provider that `configure()` or the environment named. */
export function paymentGate(options: DefaultGateOptions<IncomingMessage>): NodeGate {
  return nodeGate(gateOf(options));
}
