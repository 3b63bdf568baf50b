/**
 * The gate for Next.js route handlers: `export const GET = paymentGate({ pricing })(handler)` in `app/.../route.ts`.
 */
import { lazily, type NextGate, nextGate } from "./adapters/fetch";
import { type DefaultGateOptions, gateOf, listLater, requireOptions } from "./provider/provider";

export type { PaidHandler, PaidRequest } from "./adapters/fetch";
export { type NextGate, nextGate };

/** Opened with the first request: `next build` loads every route, without the settings and secrets of production. */
export function paymentGate(options: DefaultGateOptions<Request>): NextGate {
  requireOptions(options);
  return nextGate(
    listLater(
      lazily(() => gateOf(options)),
      options,
    ),
  );
}
