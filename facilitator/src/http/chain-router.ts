/**
 * Answers requests of a service on several chains: each goes to the API of its chain. A request that names another chain
 * is refused by that API, so that nothing is done on a chain that was not meant.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import { SERVICE_ENDPOINTS } from "turnpike/facilitator";
import {
  findNetwork,
  type Hex,
  InvalidRequest,
  type Network,
  type TurnpikeError,
  Unavailable,
} from "turnpike/protocol";
import type { Api } from "./app";
import { refusalOfNetwork, servedNetwork } from "./asked-network";
import { hasNoBody, readJsonBody } from "./body";
import { type ChainHints, hintsOf, type Lookup, type LookupKind, networkIn } from "./chain-of-request";
import { createDirectRoutes, type DirectRoutes } from "./direct-routes";
import type { Direct } from "./endpoint";
import { toPublicError } from "./errors";
import type { ApiServices } from "./services";
import { paymentIdIn } from "./stored-payment";

export interface ChainApi extends Api {
  readonly services: ApiServices;
}

/** Finds the chains that know an id. */
export type Lookups = { readonly [K in LookupKind]: (id: string) => Promise<readonly number[]> } & {
  /** whether a payment was accepted here for this chain, which need not be served */
  isStored(chainId: number, paymentId: Hex): Promise<boolean>;
  /** the chains not served here that a payment, or a subscription or act, of this id was accepted or read on */
  keeping(lookup: Lookup): Promise<readonly number[]>;
};

export interface ChainRouterOptions {
  readonly networks: readonly Network[];
  /** These are up, in the order of `networks`; at least one when a request arrives. */
  readonly apis: () => readonly ChainApi[];
  readonly lookups: Lookups;
}

export interface ChainRouter {
  fetch(request: Request, env?: unknown): Promise<Response>;
  readonly directRoutes: DirectRoutes;
}

/** A chain that is away is tried again this often. */
const RETRY_AFTER_SEC = 5;

/** Where a request goes: to the API of a chain, which answers `refusal` where there is one. */
interface Route {
  readonly api: ChainApi;
  readonly refusal?: TurnpikeError;
}

export function createChainRouter(options: ChainRouterOptions): ChainRouter {
  const { networks, apis, lookups } = options;
  const names = networks.map(({ name }) => name).join(", ");

  function firstApi(): ChainApi {
    const [api] = apis();
    if (!api) throw new TypeError("no chain is up");
    return api;
  }

  const refuse = (refusal: TurnpikeError): Route => ({ api: firstApi(), refusal });

  function routeTo({ chainId, name }: Network): Route {
    const api = apis().find(({ services }) => services.network.chainId === chainId);
    return api ? { api } : refuse(unavailable(name, `${name} is not up here.`));
  }

  const needed = (why: string): Route =>
    refuse(
      new InvalidRequest(`network: ${why}; add the parameter network, one of ${names}`, {
        details: { field: "network", in: "query" },
      }),
    );

  /**
   * A network that is not served goes to the first API, which refuses it by its own check. But a payment that was accepted
   * while it was served may have moved money, or still may: that is no refusal.
   */
  async function byName(name: string, body: unknown): Promise<Route> {
    const network = servedNetwork(name, networks);
    if (network) return routeTo(network);
    const other = findNetwork(name);
    const id = other && paymentIdIn(body, other.chainId);
    if (!id || !(await lookups.isStored(other.chainId, id))) return { api: firstApi() };
    const message = `${other.name} is not served here now, and the payment was accepted for it.`;
    return refuse(unavailable(other.name, message));
  }

  /** Returns the answer about what a chain that is served no more has or may have: no refusal. */
  async function ofTakenChain({ asked, named, objects }: ChainHints): Promise<Route | undefined> {
    const name = asked ?? named;
    const kept = (await Promise.all(objects.map((lookup) => lookups.keeping(lookup)))).flat();
    const other = kept.find(
      (chainId) =>
        networks.every((network) => network.chainId !== chainId) &&
        (name === undefined || findNetwork(name)?.chainId === chainId),
    );
    if (other === undefined) return undefined;
    const network = name ?? findNetwork(`eip155:${other}`)?.name ?? `eip155:${other}`;
    return refuse(unavailable(network, `${network} is not served here now, and what the request is about is on it.`));
  }

  async function byIds(ids: readonly Lookup[]): Promise<Route | undefined> {
    const found = (await Promise.all(ids.map(({ kind, id }) => lookups[kind](id)))).filter((some) => some.length > 0);
    const [first] = found;
    if (!first) return undefined;
    const common = networks.filter(({ chainId }) => found.every((some) => some.includes(chainId)));
    const [only] = common;
    if (!only) return needed("the request is about several chains: send one for each");
    return common.length === 1 ? routeTo(only) : needed(`${common.map(({ name }) => name).join(" and ")} know it`);
  }

  async function routeOf(hints: ChainHints, url: URL, body: unknown): Promise<Route> {
    const { endpoint, asked, named, lookups: ids } = hints;
    // Reports on a chain that is not up, too.
    if (endpoint?.id === SERVICE_ENDPOINTS.getReadiness.id) return { api: firstApi() };
    const refusal = refusalOfNetwork(endpoint, url, networks);
    if (refusal) return (await ofTakenChain(hints)) ?? refuse(refusal);
    if (asked !== undefined) return byName(asked, body);
    if (named !== undefined) {
      return (servedNetwork(named, networks) ? undefined : await ofTakenChain(hints)) ?? byName(named, body);
    }
    const found = (await byIds(ids)) ?? (await ofTakenChain(hints));
    if (found) return found;
    if (endpoint?.chain === "named") return needed("it is missing");
    // Another chain's answer would be a different one.
    const [first] = networks;
    return first && endpoint && endpoint.chain === undefined ? routeTo(first) : { api: firstApi() };
  }

  /** The first chain's endpoint answers what cannot be read, as it would alone. */
  const directOf = (path: string): Direct => ({
    refuse: (error, requestId) => directAt(firstApi(), path).refuse(error, requestId),
    async answer(readBody, request) {
      let body: unknown;
      let route: Route;
      try {
        body = readBody();
        const name = networkIn(body);
        route = name === undefined ? { api: firstApi() } : await byName(name, body);
      } catch (error) {
        route = refuse(toPublicError(error));
      }
      const { api, refusal } = route;
      const readOnce = (): unknown => {
        if (refusal) throw refusal;
        return body;
      };
      return directAt(api, path).answer(readOnce, request);
    },
  });

  let directRoutes: DirectRoutes | undefined;
  return {
    async fetch(request, env) {
      const url = new URL(request.url);
      const body = await bodyOf(request);
      const { api, refusal } = await routeOf(hintsOf(request.method, url, body), url, body).catch((error: unknown) =>
        refuse(toPublicError(error)),
      );
      const app: Pick<OpenAPIHono, "fetch"> = api.app as never;
      return app.fetch(request, refusal ? { ...(env as object), refusal } : (env as object));
    },
    directRoutes(incoming, outgoing) {
      const { services, directs } = firstApi();
      directRoutes ??= createDirectRoutes(
        // One chain that is busy refuses nothing of another's: each refuses for itself, once the body is read.
        { ...services, payments: { whyBusy: () => undefined } },
        new Map([...directs.keys()].map((path) => [path, directOf(path)])),
      );
      return directRoutes(incoming, outgoing);
    },
  };
}

/** @param network the request's own: the API that answers is another chain's */
const unavailable = (network: string, message: string): Unavailable =>
  new Unavailable(message, { retryAfterSec: RETRY_AFTER_SEC, details: { network } });

function directAt({ directs }: ChainApi, path: string): Direct {
  const direct = directs.get(path);
  if (!direct) throw new TypeError(`${path} has no direct endpoint`);
  return direct;
}

/** Reads a copy of the body as endpoints do. @returns undefined where there is none, or an endpoint will refuse it */
async function bodyOf(request: Request): Promise<unknown> {
  if (!/^(?:POST|PATCH|DELETE)$/.test(request.method) || hasNoBody(request)) return undefined;
  return readJsonBody(request.clone()).catch(() => undefined);
}
