/** Serves requests before the process is ready: alive, not ready with the reason, and retry for everything else. */
import { Hono } from "hono";
import type { Readiness } from "turnpike/facilitator";
import { Unavailable } from "turnpike/protocol";
import { problemResponse } from "./errors";
import { answerMetrics, type MetricsText } from "./probes";

export interface Starting {
  readonly app: Hono;
  readonly onStage: (stage: string) => void;
}

const RETRY_AFTER_SEC = 5;

/** @param metrics absent: they are served on a port of their own */
export function createStarting(metrics: MetricsText | undefined): Starting {
  const app = new Hono();
  let stage = "starting";
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", (context) => {
    const body: Readiness = { ready: false, checks: [{ name: "start", ok: false, detail: stage.slice(0, 256) }] };
    return context.json(body, 503, { "retry-after": String(RETRY_AFTER_SEC) });
  });
  if (metrics) app.get("/metrics", answerMetrics(metrics));
  app.all("*", () =>
    problemResponse(new Unavailable("The Facilitator is starting.", { retryAfterSec: RETRY_AFTER_SEC })),
  );
  return {
    app,
    onStage(next) {
      stage = next;
    },
  };
}
