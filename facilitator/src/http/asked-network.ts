/**
 * Refuses requests whose query names a network that is not served: the answer about another chain would be taken for an
 * answer about that one.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import { findNetwork, InvalidRequest, type Network } from "turnpike/protocol";
import type { Api } from "./app";

/** These say of each network whether it is served, or list what it has: nothing for one that is not served. */
const OF_ALL = /^\/(?:readyz|discovery\/(?:resources|search))$/;

/** @returns undefined where the network is not served */
export function servedNetwork(name: string, networks: readonly Network[]): Network | undefined {
  const chainId = findNetwork(name, networks)?.chainId;
  return networks.find((network) => network.chainId === chainId);
}

/** Returns why a request is not answered; undefined where its query names a network of these, or none. */
export function refusalOfNetwork(
  { pathname, searchParams }: URL,
  networks: readonly Network[],
): InvalidRequest | undefined {
  const asked = searchParams.get("network");
  if (asked === null || OF_ALL.test(pathname) || servedNetwork(asked, networks)) return undefined;
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
    const refusal = refusalOfNetwork(new URL(request.url), [network]);
    const send = fetch as OpenAPIHono["fetch"];
    return send(request, (refusal ? { ...(env as object), refusal } : env) as object);
  };
}
