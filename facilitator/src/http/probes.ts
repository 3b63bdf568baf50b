/** Serves health, readiness and metrics in a process without the API. */
import { type Context, Hono } from "hono";
import type { Readiness } from "turnpike/facilitator";
import { type Network, TurnpikeError } from "turnpike/protocol";
import type { Metrics } from "../telemetry/metrics";
import { problemResponse } from "./errors";
import { networkAsked } from "./request";

export interface ProbeServices {
  /** @param network reports on this chain alone */
  readiness(network?: Network): Readiness;
  /** absent: they are served on a port of their own */
  readonly metrics: MetricsText | undefined;
}

export type MetricsText = Pick<Metrics, "text" | "contentType">;

export const answerMetrics =
  ({ text, contentType }: MetricsText) =>
  async (context: Context): Promise<Response> =>
    context.body(await text(), 200, { "content-type": contentType });

/** Serves the metrics alone, for a port of their own. */
export function createMetricsPage(metrics: MetricsText): Hono {
  const app = new Hono();
  app.get("/metrics", answerMetrics(metrics));
  return app;
}

export function createProbes({ readiness, metrics }: ProbeServices): Hono {
  const app = new Hono();
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", (context) => {
    let network: Network | undefined;
    try {
      network = networkAsked({ network: context.req.query("network") });
    } catch (error) {
      return problemResponse(error);
    }
    const body = readiness(network);
    return context.json(body, body.ready ? 200 : 503);
  });
  if (metrics) app.get("/metrics", answerMetrics(metrics));
  app.notFound(() => problemResponse(new TurnpikeError("NotFound", "this process does not have the role api")));
  return app;
}
