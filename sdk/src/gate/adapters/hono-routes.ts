/** Hono middleware over several routes' gates: finds the gate of each request, and lets all else through. */
import type { Context, Next } from "hono";
import { type Answer, errorAnswer, isCorsHeader, isPreflight } from "../core/answer";
import { preflightAt, type RouteGates } from "../decision/route-match";
import { responseOf } from "./fetch";
import type { HonoGate, PaidVariables } from "./hono";

type Paid = Context<{ Variables: PaidVariables }>;

/** Creates the middleware from the routes' gates. */
export function honoRoutes({ match, gates }: RouteGates<HonoGate>): HonoGate {
  const handler = async (c: Paid, next: Next) => {
    const { method } = c.req;
    const asked = c.req.header("access-control-request-method") ?? "";
    let gate: HonoGate | undefined;
    let preflight: Answer | undefined;
    try {
      const paths = pathsOf(c);
      gate = match(method, paths);
      if (isPreflight(method, asked, c.req.header("origin"))) preflight = preflightAt({ match, gates }, asked, paths);
    } catch (refused) {
      return responseOf(errorAnswer(refused));
    }
    if (gate) return gate(c, next);
    await next();
    // What the application answers itself, also where it refuses, stays.
    if (preflight && ![...c.res.headers.keys()].some(isCorsHeader)) c.res = responseOf(preflight);
    return undefined;
  };
  const ready = async () => {
    for (const gate of gates.values()) await gate.ready();
  };
  return Object.assign(handler, { ready });
}

/** The whole path first, as the application's routes have it; then the path within a mounted application. */
function pathsOf({ req }: Paid): string[] {
  const whole = [req.path, targetOf(req.url)];
  // What this middleware was mounted with: "/api/*" in an application that is mounted at "/api".
  const depth = req.routePath.replace(/\/?\*?$/, "").split("/").length - 1;
  if (depth === 0) return whole;
  return [
    ...whole,
    ...whole.map(
      (path) =>
        `/${path
          .split("/")
          .slice(depth + 1)
          .join("/")}`,
    ),
  ];
}

const targetOf = (url: string): string => url.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
