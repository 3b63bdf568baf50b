/** The gate for Express 4 and 5: `app.get("/report", paymentGate({ pricing }), handler)`; the handler reads `req.payment`. */
import type { Application, NextFunction, Request, RequestHandler, Response } from "express";
import { TurnpikeError } from "../protocol";
import { bodyDropped } from "./body-fault";
import { type DefaultGateOptions, gateOf } from "./default-provider";
import { parserThatDropsBytes } from "./express-parsers";
import type { Gate } from "./gate";
import { nodeGate } from "./node-gate";
import type { Payment } from "./payment";
import { NODE_REMEDY } from "./request";

export { keepBody } from "./keep-body";
export { preflight } from "./preflight";

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

/**
 * Middleware before a route; `req.payment` says who paid how.
 * @throws ConfigError at start-up
 */
export function paymentGate(options: DefaultGateOptions<Request>): ExpressGate {
  return expressGate(gateOf(options));
}

/** The same for a provider of createProvider. */
export function expressGate(gate: Gate): ExpressGate {
  const middleware = nodeGate(gate, (visit, request) => {
    visit.onRefused = (error) => answerInstead((request as Request).app, error);
  });
  const handler = (request: Request, response: Response, next: NextFunction) => middleware(request, response, next);
  const ready = async (app?: Application): Promise<void> => {
    const parser = app && gate.bindsBody ? await parserThatDropsBytes(app, handler) : undefined;
    if (parser !== undefined) throw bodyDropped(NODE_REMEDY, parser);
    await gate.ready();
  };
  return Object.assign(handler, { ready });
}

const refusals = new WeakSet<object>();
const listening = new WeakSet<Application>();

/** An expected refusal ends here, as the 402 that stands behind it, not in Express's log with a stack. */
function answerInstead(app: Application, refusal: TurnpikeError): void {
  refusals.add(refusal);
  if (listening.has(app)) return;
  listening.add(app);
  // Added when it is first needed, and so behind the application's own error handlers: what they answer stands.
  app.use((error: unknown, _request: Request, response: Response, next: NextFunction) => {
    if (!(error instanceof TurnpikeError) || !refusals.has(error) || response.headersSent) return next(error);
    response.status(error.status).end();
  });
}
