/** Serves health, readiness and metrics in a process without the API. */
import { Hono } from "hono";
import type { Readiness } from "turnpike/facilitator";
import type { Metrics } from "../telemetry/metrics";

export interface ProbeDoors {
  readiness(): Readiness;
  readonly metrics: Pick<Metrics, "text" | "contentType">;
}

export function createProbes({ readiness, metrics }: ProbeDoors): Hono {
  const app = new Hono();
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", (context) => {
    const body = readiness();
    return context.json(body, body.ready ? 200 : 503);
  });
  app.get("/metrics", async (context) =>
    context.body(await metrics.text(), 200, { "content-type": metrics.contentType }),
  );
  app.notFound((context) =>
    context.json({ code: "NotFound", message: "this process does not have the role api" }, 404),
  );
  return app;
}
