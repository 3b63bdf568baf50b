/** Adapts a gate to Express middleware. */
import type { Application, NextFunction, Request, RequestHandler, Response } from "express";
import { TurnpikeError } from "../../protocol";
import type { Payment } from "../core/payment";
import type { Gate } from "../decision/gate";
import { answersPreflights } from "./express-preflight";
import { nodeGate, readyIn } from "./node-gate";

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
