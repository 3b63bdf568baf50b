/** Hono middleware over several routes' gates: finds the gate of each request, and lets all else through. */
import type { Context, Next } from "hono";
import { errorAnswer } from "../core/answer";
import type { Gate } from "../core/gate";
import type { RouteMatcher } from "../core/route-match";
import { responseOf } from "./fetch";
import type { HonoGate, PaidVariables } from "./hono";

type Paid = Context<{ Variables: PaidVariables }>;

/** Creates the middleware from the routes' gates. */
export function honoRoutes({ match, all }: RouteMatcher<HonoGate> & { readonly all: readonly Gate[] }): HonoGate {
  const handler = async (c: Paid, next: Next) => {
    let gate: HonoGate | undefined;
    try {
      gate = match(c.req.method, pathsOf(c));
    } catch (refused) {
      return responseOf(errorAnswer(refused));
    }
    return gate ? gate(c, next) : next();
  };
  const ready = async () => {
    for (const gate of all) await gate.ready();
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
