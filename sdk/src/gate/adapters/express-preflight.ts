/**
 * Finds whether the preflight of a gated Express route would be answered: a page that reads a price pays it, and could
 * not collect otherwise. Knows Express 4 and 5 only by their stacks of layers.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Answer, isCorsHeader } from "../core/answer";

interface Layer {
  readonly handle?: { readonly name: string; readonly stack?: readonly Layer[] };
  readonly route?: Route;
  /** of the path that `match` has found */
  readonly path?: string;
  /** newer versions of Express 5 return what they have found, and keep it nowhere */
  match?(path: string): boolean | { readonly path: string };
}

interface Route {
  readonly methods: Readonly<Record<string, boolean>>;
  readonly stack: readonly Layer[];
}

interface App {
  readonly _router?: { readonly stack?: readonly Layer[] };
  readonly router?: { readonly stack?: readonly Layer[] };
  readonly parent?: App;
  path(): string;
}

/** What Express has made of a message. */
interface Routed {
  readonly app?: App;
  readonly route?: Route;
  readonly originalUrl?: string;
}

const answering = new WeakSet<object>();

/** Marks a gate, or a middleware that answers preflights as a gate does. */
export function answersPreflights<T extends object>(middleware: T): T {
  answering.add(middleware);
  return middleware;
}

/** @returns false only where Express shows the gate's route, and nothing that takes OPTIONS for its path */
export function isPreflightTaken(message: IncomingMessage): boolean {
  const { app, route, originalUrl = "/" } = message as Routed;
  // Mounted by `use`, a gate gets the preflight itself.
  const isOfRoute = route?.stack.some(({ handle }) => handle !== undefined && answering.has(handle));
  if (!app || !route || !isOfRoute || takesOptions(route)) return true;
  const path = originalUrl.split(/[?#]/, 1)[0] ?? "";
  const seen = { route: false, options: false };
  for (let each: App | undefined = app; each; each = each.parent) {
    const mount = each.path();
    if (!path.startsWith(mount)) return true;
    // Express 4 has the first and throws for the second.
    look((each._router ?? each.router)?.stack ?? [], path.slice(mount.length) || "/", { of: route, seen });
  }
  return seen.options || !seen.route;
}

const takesOptions = ({ methods }: Route): boolean => methods.options === true || methods._all === true;

function look(
  stack: readonly Layer[],
  path: string,
  search: { readonly of: Route; readonly seen: { route: boolean; options: boolean } },
): void {
  for (const layer of stack) {
    const { handle, route } = layer;
    const taken = takenBy(layer, path);
    if (taken === undefined) continue;
    if (route === search.of) search.seen.route = true;
    else if (route) search.seen.options ||= takesOptions(route);
    else if (handle?.stack) look(handle.stack, path.slice(taken.length) || "/", search);
    else if (handle) search.seen.options ||= answering.has(handle) || handle.name === CORS_PACKAGE;
  }
}

/** The name of the middleware of the package `cors`, which answers preflights. */
const CORS_PACKAGE = "corsMiddleware";

/** @returns the part of the path that a layer takes; undefined where it does not match */
function takenBy(layer: Layer, path: string): string | undefined {
  try {
    const found = layer.match?.(path);
    return found ? ((found === true ? layer.path : found.path) ?? "") : undefined;
  } catch {
    // A path that cannot be decoded reaches no route.
    return undefined;
  }
}

/** Answers a preflight that nothing behind answers: where the application sets CORS headers, they stay alone. */
export function answerUnanswered(response: ServerResponse, { headers }: Answer): void {
  const writeHead = response.writeHead.bind(response) as (...args: unknown[]) => ServerResponse;
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    const given = rest.at(-1);
    const names = Array.isArray(given) ? given.flat() : Object.keys(typeof given === "object" && given ? given : {});
    const isAnswered = [...response.getHeaderNames(), ...names].some((name) => isCorsHeader(String(name)));
    if (isAnswered || response.headersSent) return writeHead(status, ...rest);
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    // A browser takes any status of success.
    const isSuccess = status >= 200 && status < 300;
    return isSuccess ? writeHead(status, ...rest) : writeHead(200, ...rest.filter((each) => typeof each !== "string"));
  }) as typeof response.writeHead;
}
