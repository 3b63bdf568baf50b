/**
 * The service itself: alive, ready, the cost of a transaction. Metrics, the OpenAPI document and the front page are not
 * JSON endpoints; app.ts serves them.
 */
import { SERVICE_ENDPOINTS } from "turnpike/facilitator";
import { TurnpikeError } from "turnpike/protocol";
import { type Endpoint, ok, routes } from "../endpoint";
import { networkAsked } from "../request";
import type { ApiServices } from "../services";

export function serviceEndpoints(services: ApiServices): Endpoint[] {
  const { readiness, costs } = services;
  return routes(services, SERVICE_ENDPOINTS, {
    async getTransactionCost({ params }) {
      const cost = await costs.of(params.hash);
      if (!cost) throw new TurnpikeError("UnknownObject", "no mined transaction of this Facilitator has this hash");
      return ok(cost);
    },
    getHealth: async () => ok({ status: "ok" as const }),
    async getReadiness({ query }) {
      const body = readiness(networkAsked(query));
      return { status: body.ready ? 200 : 503, body };
    },
  });
}
