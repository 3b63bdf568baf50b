/**
 * Refuses requests whose query names a network that is not served: the answer about another chain would be taken for an
 * answer about that one.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { EndpointSpec } from "turnpike/facilitator";
import { findNetwork, InvalidRequest, type Network } from "turnpike/protocol";
import type { Api } from "./app";
import { endpointOf } from "./chain-of-request";

/** @returns undefined where the network is not served */
export function servedNetwork(name: string, networks: readonly Network[]): Network | undefined {
  const chainId = findNetwork(name, networks)?.chainId;
  return networks.find((network) => network.chainId === chainId);
}

/** Returns why a request is not answered; undefined where its query names a network of these, or none. */
export function refusalOfNetwork(
  endpoint: Pick<EndpointSpec, "chain"> | undefined,
  { searchParams }: URL,
  networks: readonly Network[],
): InvalidRequest | undefined {
  const asked = searchParams.get("network");
  if (asked === null || endpoint?.chain === "all" || servedNetwork(asked, networks)) return undefined;
  const problem = findNetwork(asked, networks)
    ? "this Facilitator does not serve it"
    : "must be a network's name or its CAIP-2 id";
  return new InvalidRequest(`network: ${problem}; use one of ${networks.map(({ name }) => name).join(", ")}`, {
    details: { field: "network", in: "query" },
  });
}

/** Answers requests of a service on one chain. */
export function createOneChainFetch({ app: { fetch } }: Pick<Api, "app">, network: Network) {
  return (request: Request, env?: unknown): Response | Promise<Response> => {
    const url = new URL(request.url);
    const { endpoint } = endpointOf(request.method, url.pathname) ?? {};
    const refusal = refusalOfNetwork(endpoint, url, [network]);
    const send = fetch as OpenAPIHono["fetch"];
    return send(request, (refusal ? { ...(env as object), refusal } : env) as object);
  };
}
