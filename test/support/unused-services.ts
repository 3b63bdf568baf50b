/** The API's services for tests that call none of them. */

import { noRateLimit } from "../../facilitator/src/http/rate-limit";
import type { ApiServices } from "../../facilitator/src/http/services";
import { createMetrics } from "../../facilitator/src/telemetry/metrics";

const unused = new Proxy({}, { get: () => () => undefined });

/** @param admit who is let in by an API key; nobody is asked unless given */
export function unusedServices({
  sandbox,
  admit,
}: Pick<ApiServices, "sandbox"> & { readonly admit?: unknown } = {}): ApiServices {
  return {
    network: { name: "local-31337", chainId: 31_337 },
    ...(sandbox && { sandbox }),
    subscriptions: { permits: unused },
    payments: unused,
    catalogue: unused,
    providers: { keys: unused, endpoints: unused, listings: unused, debits: unused, deliveries: unused, admit },
    analytics: unused,
    keyLimit: noRateLimit,
    supported: {},
    readiness: () => ({ ready: true, checks: [] }),
    metrics: createMetrics(),
    servesMetrics: true,
    log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
    rateLimit: noRateLimit,
    authorizeWaitMs: 0,
    monotonicMs: () => 0,
    untilDraining: (work: Promise<unknown>) => work,
  } as unknown as ApiServices;
}
