/** Express middleware over several routes' gates: finds the gate of each request, and lets all else through. */
import type { Application, NextFunction, Request, Response } from "express";
import { ConfigError } from "../../protocol";
import { type Answer, errorAnswer, isPreflight } from "../core/answer";
import { preflightAt, type RouteGates } from "../decision/route-match";
import type { ExpressGate } from "./express";
import { answerUnanswered } from "./express-preflight";
import { readyIn, send } from "./node-gate";

/** Creates the middleware from the routes' gates. */
export function expressRoutes({ match, fits, gates }: RouteGates<ExpressGate>): ExpressGate {
  const preflightOf = ({ method, headers }: Request, paths: readonly string[]): Answer | undefined => {
    const asked = headers["access-control-request-method"];
    return isPreflight(method, asked, headers.origin) ? preflightAt({ match, gates }, String(asked), paths) : undefined;
  };
  const handler = (request: Request, response: Response, next: NextFunction): void => {
    // The path within the mount first, as the router behind this sees it.
    const paths = [request.url, request.originalUrl];
    let gate: ExpressGate | undefined;
    let preflight: Answer | undefined;
    try {
      gate = match(request.method, paths);
      preflight = preflightOf(request, paths);
    } catch (refused) {
      send(response, errorAnswer(refused));
      return;
    }
    if (gate) {
      // Another method of this path may be another route, with a price of its own.
      if (gates.size > 1) guardMethod(request, (method) => ![undefined, gate].includes(match(method, paths)));
      gate(request, response, next);
      return;
    }
    if (preflight) answerUnanswered(response, preflight);
    if (fits(paths)) guardMethod(request, (method) => match(method, paths) !== undefined);
    next();
  };
  const ready = async (app?: Application) => {
    for (const gate of gates.values()) await readyIn(app, gate, handler);
  };
  return Object.assign(handler, { ready });
}

/**
 * Middleware behind this may override the method, and so reach a paid route that was not paid for: then the request
 * fails.
 */
function guardMethod(request: Request, isUnpaid: (method: string) => boolean): void {
  let current = request.method;
  Object.defineProperty(request, "method", {
    configurable: true,
    enumerable: true,
    get: () => current,
    set(method: string) {
      if (isUnpaid(method)) {
        throw new ConfigError(`a middleware changes ${current} to ${method} behind paymentMiddleware: mount it before`);
      }
      current = method;
    },
  });
}
