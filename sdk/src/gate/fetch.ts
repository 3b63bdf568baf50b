/** The gate for fetch-style handlers (Deno, Bun, workers with Node's APIs): `(request) => Response`. */
import { type FetchGate, fetchGate } from "./adapters/fetch";
import { type DefaultGateOptions, gateOf } from "./provider/provider";

export type { PaidHandler, PaidRequest } from "./adapters/fetch";
export { type FetchGate, fetchGate };

/**
 * Wraps a `(Request) => Response` handler.
 * @throws ConfigError at start-up
 */
export function paymentGate(options: DefaultGateOptions<Request>): FetchGate {
  return fetchGate(gateOf(options));
}
