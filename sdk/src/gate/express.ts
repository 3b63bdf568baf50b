/** The gate for Express 4 and 5: `app.get("/report", paymentGate({ pricing }), handler)`; the handler reads `req.payment`. */
import type { NextFunction, Request, RequestHandler, Response } from "express";
import { type DefaultGateOptions, gateOf } from "./default-provider";
import type { Gate } from "./gate";
import { nodeGate } from "./node-gate";
import type { Payment } from "./payment";

declare global {
  namespace Express {
    interface Request {
      /** set by paymentGate on every request that it lets through */
      payment?: Payment;
    }
  }
}

export type ExpressGate = RequestHandler & {
  /** Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked. */
  ready(): Promise<void>;
};

export function paymentGate(options: DefaultGateOptions<Request>): ExpressGate {
  return expressGate(gateOf(options));
}

export function expressGate(gate: Gate): ExpressGate {
  const middleware = nodeGate(gate);
  const handler = (request: Request, response: Response, next: NextFunction) => middleware(request, response, next);
  return Object.assign(handler, { ready: () => gate.ready() });
}
