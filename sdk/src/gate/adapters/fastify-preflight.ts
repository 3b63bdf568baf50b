/**
 * Finds whether the preflight of a gated Fastify route would be answered: a page that reads a price pays it, and could
 * not collect otherwise.
 */
import type { FastifyInstance, FastifyRequest } from "fastify";

const answering = new WeakSet<object>();

/** Marks a hook that answers preflights. */
export function answersPreflights<T extends object>(hook: T): T {
  answering.add(hook);
  return hook;
}

/** By the routes' methods and patterns; once a server listens, it takes no further routes. */
const known = new WeakMap<object, Map<string, boolean>>();

/** @returns false only where Fastify shows that no hook and no route takes OPTIONS for this path */
export function isPreflightTaken({ server, routeOptions }: FastifyRequest, gate: object): boolean {
  const { url, method } = (routeOptions ?? {}) as { readonly url?: string; readonly method?: string | string[] };
  // A path without a route, or a Fastify that does not name it.
  if (url === undefined || [method].flat().includes("OPTIONS")) return true;
  const patterns = known.get(server) ?? new Map<string, boolean>();
  known.set(server, patterns);
  const key = `${method} ${url}`;
  const found = patterns.get(key) ?? (isHooked(server, gate) || isRouted(server, url, String([method].flat()[0])));
  patterns.set(key, found);
  return found;
}

/** A path without a route for OPTIONS runs the hooks of the root alone. */
function isHooked(server: FastifyInstance, gate: object): boolean {
  let root: object | undefined;
  for (let at: object | null = server; at; at = Object.getPrototypeOf(at)) if (hooksIn(at)) root = at;
  const hooks = root && hooksIn(root);
  if (!hooks) return true;
  return Object.values(hooks)
    .flat()
    .some((hook) => hook === gate || (typeof hook === "function" && answering.has(hook)));
}

function hooksIn(server: object): object | undefined {
  const key = Object.getOwnPropertySymbols(server).find(({ description }) => description === "fastify.hooks");
  return key && (Reflect.get(server, key) as object);
}

/** A line of Fastify's picture of its routes: where its part of the path begins, that part, and what follows. */
const ROUTE_LINE = /^([│ ]*)[├└]── (.*?)( \([A-Z, -]*\))?( \{.*\})?$/;

const COLUMNS = 4;

const EMPTY_ROOT = "(empty root node)";

/** A route as Fastify shows it. constraints: the hosts or versions that alone reach it, as it writes them */
interface Routed {
  readonly pattern: string;
  readonly constraints: string | undefined;
}

function routesOf(server: FastifyInstance, method: string): Routed[] {
  const parts: string[] = [];
  return server
    .printRoutes({ method: method as "GET" })
    .split("\n")
    .flatMap((line) => {
      const [, indent = "", part = "", methods, constraints] = ROUTE_LINE.exec(line) ?? [];
      parts.splice(indent.length / COLUMNS, parts.length, part === EMPTY_ROOT ? "" : part);
      return methods?.includes(method) ? [{ pattern: parts.join(""), constraints }] : [];
    });
}

function isRouted(server: FastifyInstance, url: string, method: string): boolean {
  const own = routesOf(server, method).filter(({ pattern }) => pattern === url);
  return routesOf(server, "OPTIONS").some(({ pattern, constraints }) => {
    // What only some hosts or versions reach answers for a route of the same alone.
    if (constraints && own.length > 0 && !own.some((route) => route.constraints === constraints)) return false;
    const fixed = pattern.split(/[:*]/, 1)[0] ?? "";
    return fixed === pattern ? url === pattern : url.startsWith(fixed);
  });
}
