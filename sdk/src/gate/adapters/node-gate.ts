/** Adapts a gate to `(req, res, next)` middleware. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { callback } from "../../protocol/arguments";
import {
  type Allowed,
  type Answer,
  answerOf,
  CORS_HEADERS,
  type Decision,
  errorAnswer,
  isPreflight,
  PREFLIGHT,
} from "../core/answer";
import { bodyDropped } from "../core/body";
import type { Payment } from "../core/payment";
import { NODE_REMEDY, NodeGateRequest } from "../core/request";
import type { Gate } from "../decision/gate";
import { type RequestScope, runInScope, settleAhead, withdraw } from "../decision/request-scope";
import { parserThatDropsBytes } from "./express-parsers";
import { answersPreflights, isPreflightTaken } from "./express-preflight";
import { dropForSharedCaches, setAbsent } from "./node-headers";
import { isOver, watchPaid } from "./node-response";
import { cutOff } from "./shown-answer";

/** A request that a gate has allowed. */
export type PaidRequest = IncomingMessage & { payment?: Payment };

/** Middleware `(req, res, next)` for node:http and what is built on it. */
export interface NodeGate {
  (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void): void | Promise<void>;
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked.
   * @param app an Express application, after its routes are mounted: a gate with `bind: "body"` behind a parser that
   * keeps no bytes rejects too
   */
  ready(app?: object): Promise<void>;
}

/**
 * Lets a request through to `next` once it is paid; answers it otherwise.
 * @param onAllow called with each allowed request, before its handler runs
 */
export function nodeGate(gate: Gate, onAllow?: (scope: RequestScope, request: IncomingMessage) => void): NodeGate {
  const middleware = (request: PaidRequest, response: ServerResponse, next: (error?: unknown) => void) => {
    const facts = new NodeGateRequest(request);
    const act = (decision: Decision): void | Promise<void> => {
      if (isOver(request, response)) {
        void withdraw(decision);
        return;
      }
      if (decision.kind !== "allow") {
        const isPayable = isPreflightTaken.bind(undefined, request);
        send(response, answerOf(decision, gate, isPayable));
        return;
      }
      return runInScope(facts, decision, facts.isUpgrade ? handOver : serve, request, response, next);
    };
    const fail = (error: unknown): void => {
      if (gate.cors && !response.headersSent) setAbsent(response, CORS_HEADERS);
      next(error);
    };
    return gate.decide<void | Promise<void>>({ facts, act, fail });
  };

  function serve(
    scope: RequestScope,
    decision: Allowed,
    request: PaidRequest,
    response: ServerResponse,
    next: () => void,
  ): void {
    admit(scope, decision, request);
    if (decision.payment.kind !== "free") watchPaid({ gate, response, scope, decision });
    next();
  }

  function admit(scope: RequestScope, decision: Allowed, request: PaidRequest): void {
    onAllow?.(scope, request);
    request.payment = scope.payment ?? decision.payment;
  }

  /** The handler takes the connection over: what it sends there cannot be withheld. */
  async function handOver(
    scope: RequestScope,
    decision: Allowed,
    request: PaidRequest,
    response: ServerResponse,
    next: () => void,
  ): Promise<void> {
    const refusal = await settleAhead(gate, scope);
    if (refusal) return send(response, refusal);
    admit(scope, decision, request);
    next();
  }
  return answersPreflights(Object.assign(middleware, { ready: (app?: object) => readyIn(app, gate, middleware) }));
}

/** Waits for the gate, and looks for parsers before its middleware that drop bodies which it has to bind. */
export async function readyIn(app: object | undefined, gate: Gate, middleware: unknown): Promise<void> {
  const parser = app && gate.bindsBody ? await parserThatDropsBytes(app, middleware) : undefined;
  if (parser !== undefined) throw bodyDropped(NODE_REMEDY, parser);
  await gate.ready();
}

export function send(response: ServerResponse, { status, headers, body }: Answer): void {
  if (body.length > 0 && response.getHeaderNames().length === 0) {
    // All at once: setting each header costs more than the rest of a 402.
    response.writeHead(status, { ...headers, "Content-Length": Buffer.byteLength(body) }).end(body);
    return;
  }
  response.statusCode = status;
  dropForSharedCaches(response);
  setAbsent(response, headers);
  response.end(body);
}

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === "function";

/** What a handler has set for a body that another takes the place of. */
const OF_BODY = ["Content-Encoding", "Content-Range", "Transfer-Encoding", "Trailer"];

/** For node:http: a request listener whose handler sees only paid requests. A handler that throws answers 500. */
export function gated(
  gate: NodeGate,
  handler: (request: PaidRequest, response: ServerResponse) => unknown,
): (request: IncomingMessage, response: ServerResponse) => void {
  callback(gate, "gate");
  callback(handler, "handler");
  return (request, response) => {
    const fail = (error: unknown): void => {
      // An answer that is complete leaves.
      if (response.writableEnded) return;
      if (response.headersSent) {
        cutOff(response);
        return;
      }
      // The reason, or one of these headers, may be what could not be written.
      if (request.httpVersionMajor < 2) response.statusMessage = "";
      for (const name of OF_BODY) response.removeHeader(name);
      const answer = errorAnswer(error);
      response.setHeader("Content-Length", Buffer.byteLength(answer.body));
      send(response, answer);
    };
    void gate(request, response, (error) => {
      if (error !== undefined) return fail(error);
      try {
        const handled = handler(request, response);
        if (isThenable(handled)) Promise.resolve(handled).catch(fail);
      } catch (thrown) {
        fail(thrown);
      }
    });
  };
}

/** Middleware `(req, res, next)` that answers preflights as a gate does, for nothing, and lets all else through. */
export function preflight(): (request: IncomingMessage, response: ServerResponse, next: () => void) => void {
  return answersPreflights((request, response, next) => {
    const { origin, "access-control-request-method": asked } = request.headers;
    if (!isPreflight(request.method, asked, origin)) return next();
    response.statusCode = PREFLIGHT.status;
    setAbsent(response, PREFLIGHT.headers);
    response.end();
  });
}
