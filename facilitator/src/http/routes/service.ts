/**
 * The service itself: alive, ready. Metrics, the OpenAPI document and the front page are not JSON endpoints; app.ts
 * serves them.
 */
import { healthSchema, readinessSchema } from "turnpike/facilitator";
import { findNetwork, InvalidRequest, type Network } from "turnpike/protocol";
import { z } from "zod";
import { type Endpoint, endpoint } from "../endpoint";
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
      /** of several chains, the one that is reported on */
      query: z.object({ network: z.string().max(64).optional() }),
      answers: { 200: readinessSchema, 503: readinessSchema },
      async handle({ query }) {
        const body = readiness(query.network === undefined ? undefined : requireNetworkNamed(query.network));
        return { status: body.ready ? 200 : 503, body };
      },
    }),
  ];
}

/** @throws InvalidRequest */
function requireNetworkNamed(name: string): Network {
  const network = findNetwork(name);
  if (network) return network;
  throw new InvalidRequest("network: must be a network's name, such as base-mainnet", {
    details: { field: "network", in: "query" },
  });
}
