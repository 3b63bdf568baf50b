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

/** What becomes of a preflight: `ended` is the answer that Express has where routes of other methods match, without CORS. */
type End = "taken" | "ended" | "passed";

interface Search {
  readonly own: Route;
  /** in the application that is mounted there */
  readonly inner: End | undefined;
  isSeen: boolean;
}

/** @returns false only where Express shows the gate's route, and nothing that takes OPTIONS for its path */
export function isPreflightTaken(message: IncomingMessage): boolean {
  const { app, route, originalUrl = "/" } = message as Routed;
  // Mounted by `use`, a gate gets the preflight itself.
  const isOfRoute = route?.stack.some(({ handle }) => handle !== undefined && answering.has(handle));
  if (!app || !route || !isOfRoute || takesOptions(route)) return true;
  const path = originalUrl.split(/[?#]/, 1)[0] ?? "";
  let inner: End | undefined;
  let isSeen = false;
  for (let each: App | undefined = app; each; each = each.parent) {
    const mount = each.path().replace(/\/$/, "");
    if (!path.startsWith(mount)) return true;
    const search: Search = { own: route, inner, isSeen: false };
    // Express 4 has the first and throws for the second.
    inner = endIn((each._router ?? each.router)?.stack ?? [], path.slice(mount.length) || "/", search);
    if (inner === "taken") return true;
    isSeen ||= search.isSeen;
  }
  return !isSeen;
}

const takesOptions = ({ methods }: Route): boolean => methods.options === true || methods._all === true;

/** Goes the way of a preflight through the layers, in their order. */
function endIn(stack: readonly Layer[], path: string, search: Search): End {
  let isRouted = false;
  for (const layer of stack) {
    const taken = takenBy(layer, path);
    if (taken === undefined) continue;
    const { route } = layer;
    if (route === search.own) search.isSeen = true;
    if (route) isRouted = true;
    const end = route
      ? takesOptions(route)
        ? "taken"
        : "passed"
      : endOf(layer, path.slice(taken.length) || "/", search);
    if (end !== "passed") return end;
  }
  return isRouted ? "ended" : "passed";
}

function endOf({ handle }: Layer, rest: string, search: Search): End {
  if (handle?.stack) return endIn(handle.stack, rest, search);
  // An application within: the one that was looked through, or one that does not show what it answers.
  if (handle?.name === MOUNTED) return search.inner ?? "taken";
  const isTaking = handle !== undefined && (answering.has(handle) || handle.name === CORS_PACKAGE);
  return isTaking ? "taken" : "passed";
}

/** What Express calls the layer of an application that another one uses. */
const MOUNTED = "mounted_app";

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
