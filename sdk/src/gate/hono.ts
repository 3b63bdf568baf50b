/** The gate for Hono: `app.get("/report", paymentGate({ pricing }), handler)`; the handler reads `c.get("payment")`. */
import type { Context, MiddlewareHandler } from "hono";
import { answerOf, CORS_HEADERS, PREFLIGHT } from "./answer";
import type { Decision } from "./decide";
import { type DefaultGateOptions, gateOf } from "./default-provider";
import { responseOf, settleResponse } from "./fetch-response";
import type { Gate } from "./gate";
import type { Payment } from "./payment";
import { isPreflight } from "./preflight";
import { gateRequestOfFetch } from "./request";
import { openVisit, visits } from "./visit";

/** What a gated handler finds in its context. */
export interface PaidVariables {
  payment: Payment;
}

/** Hono middleware. */
export type HonoGate = MiddlewareHandler<{ Variables: PaidVariables }> & {
  /** Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked. */
  ready(): Promise<void>;
};

/**
 * Middleware before a route; `c.get("payment")` says who paid how.
 * @throws ConfigError at start-up
 */
export function paymentGate(options: DefaultGateOptions<Context>): HonoGate {
  return honoGate(gateOf(options));
}

/** Answers the preflights of routes that have one method (`app.get`): `app.use("/report", preflight())` before them. */
export function preflight(): MiddlewareHandler {
  return async ({ req }, next) => {
    const { method } = req;
    const isAsked = isPreflight(method, req.header("access-control-request-method"), req.header("origin"));
    return isAsked ? responseOf(PREFLIGHT) : next();
  };
}

/** The same for a provider of createProvider. */
export function honoGate(gate: Gate): HonoGate {
  const middleware: MiddlewareHandler<{ Variables: PaidVariables }> = async (c, next) => {
    const request = gateRequestOfFetch(c.req.raw, c);
    let decision: Decision;
    try {
      decision = await gate.decide(request);
    } catch (error) {
      // The application's error handler answers; what it makes carries these.
      if (gate.cors) for (const [name, value] of Object.entries(CORS_HEADERS)) c.header(name, value);
      throw error;
    }
    if (decision.kind !== "allow") return responseOf(answerOf(decision));
    const visit = openVisit(request, decision);
    // As Hono's own exceptions have one: its default error handler answers with that, and logs nothing.
    visit.onRefused = (error) =>
      void Object.assign(error, { getResponse: () => new Response(null, { status: error.status }) });
    c.set("payment", visit.payment ?? decision.payment);
    await visits.run(visit, next);
    const { res: response, error } = c;
    const settled = await settleResponse({ gate, visit, decision, response, threw: error !== undefined });
    if (settled !== response) {
      // Hono merges the headers of a response that replaces another, unless there is none.
      c.res = undefined;
      c.res = settled;
    }
    return undefined;
  };
  return Object.assign(middleware, { ready: () => gate.ready() });
}
