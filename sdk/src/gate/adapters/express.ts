/** Adapts a gate to Express middleware. */
import type { Application, NextFunction, Request, RequestHandler, Response } from "express";
import { ConfigError, TurnpikeError } from "../../protocol";
import { type Answer, errorAnswer, isPreflight } from "../core/answer";
import type { Payment } from "../core/payment";
import type { Gate } from "../decision/gate";
import { preflightAt, type RouteGates } from "../decision/route-match";
import { answersPreflights, answerUnanswered } from "./express-preflight";
import { nodeGate, readyIn, send } from "./node-gate";

declare global {
  namespace Express {
    interface Request {
      /** set by paymentGate on every request that it lets through */
      payment?: Payment;
    }
  }
}

/** Express middleware. */
export type ExpressGate = RequestHandler & {
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked.
   * @param app after its routes are mounted: a gate with `bind: "body"` behind a parser that keeps no bytes rejects too
   */
  ready(app?: Application): Promise<void>;
};

/** Creates the middleware from a provider's gate. */
export function expressGate(gate: Gate): ExpressGate {
  const middleware = nodeGate(gate, (scope, request) => {
    scope.onRefused = suppressLog.bind(undefined, (request as Request).app);
  });
  const handler = (request: Request, response: Response, next: NextFunction) => middleware(request, response, next);
  return answersPreflights(Object.assign(handler, { ready: (app?: Application) => readyIn(app, gate, handler) }));
}

const refusals = new WeakSet<object>();

const listening = new WeakSet<Application>();

/** Ends an expected refusal with its status, so that Express does not log it with a stack. */
function suppressLog(app: Application, refusal: TurnpikeError): void {
  refusals.add(refusal);
  if (listening.has(app)) return;
  listening.add(app);
  // Added when first needed, and so after the application's own error handlers, which take precedence.
  app.use((error: unknown, _request: Request, response: Response, next: NextFunction) => {
    if (!(error instanceof TurnpikeError) || !refusals.has(error) || response.headersSent) return next(error);
    response.status(error.status).end();
  });
}

/** Creates middleware over several routes' gates: finds the gate of each request, and lets all else through. */
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
