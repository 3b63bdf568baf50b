/**
 * The service itself: alive, ready. Metrics, the OpenAPI document and the front page are not JSON endpoints; app.ts
 * serves them.
 */
import { healthSchema, readinessSchema } from "turnpike/facilitator";
import { type Endpoint, endpoint } from "../endpoint";
import { networkAsked, networkQuerySchema } from "../request";
import type { ApiServices } from "../services";

export function serviceEndpoints({ readiness }: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/healthz",
      tag: "service",
      summary: "The process answers.",
      answers: { 200: healthSchema },
      handle: async () => ({ status: 200, body: { status: "ok" as const } }),
    }),
    endpoint({
      method: "get",
      path: "/readyz",
      tag: "service",
      summary: "Whether it can settle now: database, chain, reader, lanes and their gas money.",
      query: networkQuerySchema,
      answers: { 200: readinessSchema, 503: readinessSchema },
      async handle({ query }) {
        const body = readiness(networkAsked(query));
        return { status: body.ready ? 200 : 503, body };
      },
    }),
  ];
}
