/** Adds what every response has, on either path: headers, one log line and one measurement. */
import type { Logger } from "pino";
import { CORS_EXPOSE_HEADERS, type Hex, type TurnpikeError } from "turnpike/protocol";
import { createFaultLog } from "../telemetry/fault-log";
import type { Metrics } from "../telemetry/metrics";
import type { RequestTrace } from "../telemetry/tracing";

/** The API is open to every origin. */
export const OPEN_HEADERS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": `${CORS_EXPOSE_HEADERS}, X-Request-Id`,
} as const;

interface Watching {
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly monotonicMs: () => number;
}

export interface Observed {
  readonly requestId: string;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly startedMs: number;
  readonly failure?: TurnpikeError | undefined;
  readonly paymentId?: Hex | undefined;
  readonly trace?: RequestTrace | undefined;
}

const UNAVAILABLE = 503;

/**
 * Writes one log line and one measurement for each request. Bodies and headers are never logged. A 503 is not a fault
 * of this program: an overload or outage causes thousands, so they are counted and logged together.
 */
export function createObserver({ log, metrics, monotonicMs }: Watching) {
  const refusals = createFaultLog({ log, monotonicMs });
  return ({ requestId, method, route, status, startedMs, failure, paymentId, trace }: Observed): void => {
    const durationMs = Math.round(monotonicMs() - startedMs);
    metrics.requests.inc({ route, method, status });
    if (failure) metrics.problems.inc({ code: failure.code });
    metrics.requestSeconds.observe({ route }, durationMs / 1_000);
    trace?.end({ route, status, code: failure?.code });
    const line = {
      requestId,
      method,
      route,
      status,
      durationMs,
      ...(paymentId && { paymentId }),
      ...(trace && { traceId: trace.traceId }),
      ...(failure && { code: failure.code }),
    };
    if (status === UNAVAILABLE && failure) {
      log.debug(line, "request refused for now");
      refusals.met(`${route} ${failure.code} ${failure.reason}`, failure, "requests are refused for now", line);
    } else if (status >= 500 && status !== UNAVAILABLE) log.error({ ...line, error: failure }, "request failed");
    else log.info(line, "request");
  };
}
