/** A gate as `(req, res, next)` middleware, of whichever provider. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Answer, answerOf, CORS_HEADERS, errorAnswer } from "./answer";
import type { Decision } from "./decide";
import type { Gate } from "./gate";
import { keepPrivate, setAbsent, watchResponse } from "./node-response";
import type { Payment } from "./payment";
import { gateRequestOfNode } from "./request";
import { openVisit, type Visit, visits } from "./visit";

/** A request that a gate let through. */
export type PaidRequest = IncomingMessage & { payment?: Payment };

/** Middleware `(req, res, next)` for node:http and what is built on it. */
export interface NodeGate {
  (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void): Promise<void>;
  /** Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked. */
  ready(): Promise<void>;
}

/**
 * Lets a request through to `next` once it is paid; answers it otherwise.
 * @param onVisit told of each request that is let through, before its handler runs
 */
export function nodeGate(gate: Gate, onVisit?: (visit: Visit, request: IncomingMessage) => void): NodeGate {
  const middleware = async (request: PaidRequest, response: ServerResponse, next: (error?: unknown) => void) => {
    const facts = gateRequestOfNode(request);
    let decision: Decision;
    try {
      decision = await gate.decide(facts);
    } catch (error) {
      if (gate.cors) setAbsent(response, CORS_HEADERS);
      return next(error);
    }
    if (decision.kind !== "allow") return send(response, answerOf(decision));
    const visit = openVisit(facts, decision);
    onVisit?.(visit, request);
    request.payment = visit.payment ?? decision.payment;
    if (decision.payment.kind !== "free") {
      keepPrivate(response, gate.cors);
      setAbsent(response, decision.headers);
      watchResponse({ response, visit, onRefusedCharge: () => gate.answerOfRefusedCharge(visit) });
    }
    visits.run(visit, next);
  };
  return Object.assign(middleware, { ready: () => gate.ready() });
}

export function send(response: ServerResponse, answer: Answer): void {
  response.statusCode = answer.status;
  setAbsent(response, answer.headers);
  response.end(answer.body);
}

/** For node:http: a request listener whose handler sees only paid requests. A handler that throws answers 500. */
export function gated(
  gate: NodeGate,
  handler: (request: PaidRequest, response: ServerResponse) => unknown,
): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    const fail = (error: unknown): void => {
      if (response.headersSent) response.destroy();
      else send(response, errorAnswer(error));
    };
    void gate(request, response, (error) => {
      if (error !== undefined) return fail(error);
      Promise.resolve()
        .then(() => handler(request, response))
        .catch(fail);
    });
  };
}
