/** Adapts a gate to a Fastify hook. */
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction, RequestPayload } from "fastify";
import {
  type Allowed,
  type Answer,
  answerOf,
  CORS_HEADERS,
  type Decision,
  isPreflight,
  PREFLIGHT,
} from "../core/answer";
import type { Payment } from "../core/payment";
import { NodeGateRequest } from "../core/request";
import type { Gate } from "../decision/gate";
import { type RequestScope, runInScope, settleAhead, withdraw } from "../decision/request-scope";
import { answersPreflights, isPreflightTaken } from "./fastify-preflight";
import { isOver, watchPaid } from "./node-response";

declare module "fastify" {
  interface FastifyRequest {
    /** set by paymentGate on every request that it lets through */
    payment?: Payment;
  }
}

type PayloadDone = (error?: Error | null, payload?: RequestPayload) => void;

const REMEDY =
  "use the gate as preParsing (or onRequest) instead of preHandler, or keep the bytes as request.rawBody (fastify-raw-body)";

/**
 * For `onRequest`, `preParsing`, `preValidation` or `preHandler`, of one route or of all. With `bind: "body"` use
 * `preParsing`: after it Fastify has parsed the body and dropped its bytes.
 */
export interface FastifyGate {
  (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void;
  /** as `preParsing` */
  (request: FastifyRequest, reply: FastifyReply, payload: RequestPayload, done: PayloadDone): void;
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked.
   */
  ready(): Promise<void>;
}

/** Answers the preflights of routes that have one method: `app.addHook("onRequest", preflight())` where they are. */
export function preflight(): (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void {
  return answersPreflights<ReturnType<typeof preflight>>(({ method, headers }, reply, done) => {
    if (!isPreflight(method, headers["access-control-request-method"], headers.origin)) return done();
    void reply.code(PREFLIGHT.status).headers(withoutOwnCors(reply, PREFLIGHT.headers)).send();
  });
}

/** Creates the hook from a provider's gate. */
export function fastifyGate(gate: Gate): FastifyGate {
  const hook = (
    request: FastifyRequest,
    reply: FastifyReply,
    payloadOrDone: RequestPayload | HookHandlerDoneFunction,
    payloadDone?: PayloadDone,
  ): void => {
    const parsed = request as { body?: unknown; rawBody?: Uint8Array | string };
    const payload = typeof payloadOrDone === "function" ? undefined : (payloadOrDone as Readable & RequestPayload);
    const done = (payloadDone ?? payloadOrDone) as PayloadDone;
    const known = { raw: request, target: request.originalUrl, parsed, payload, remedy: REMEDY };
    const facts = new NodeGateRequest(request.raw, known);
    const act = (decision: Decision): void | Promise<void> => {
      if (isOver(request.raw, reply.raw)) {
        void withdraw(decision);
        return;
      }
      if (decision.kind !== "allow")
        return answer(answerOf(decision, gate, isPreflightTaken.bind(undefined, request, hook)));
      return runInScope<void | Promise<void>, []>(facts, decision, facts.isUpgrade ? handOver : serve);
    };
    const answer = ({ status, headers, body }: Answer): void => {
      void reply
        .code(status)
        .headers(withoutOwnCors(reply, headers))
        .send(typeof body === "string" ? body : Buffer.from(body));
    };
    const serve = (scope: RequestScope, decision: Allowed): void => {
      if (decision.payment.kind !== "free") watchPaid({ gate, response: reply.raw, scope, decision });
      admit(scope, decision);
    };
    const admit = (scope: RequestScope, decision: Allowed): void => {
      request.payment = scope.payment ?? decision.payment;
      done(null, payload && facts.drained && refilled(payload, facts.drained));
    };
    /** The handler takes the connection over: what it sends there cannot be withheld. */
    const handOver = async (scope: RequestScope, decision: Allowed): Promise<void> => {
      const refusal = await settleAhead(gate, scope);
      if (refusal) answer(refusal);
      else admit(scope, decision);
    };
    const fail = (error: unknown): void => {
      if (gate.cors && !reply.raw.headersSent) void reply.headers(withoutOwnCors(reply, CORS_HEADERS));
      done(error as Error);
    };
    void gate.decide<void | Promise<void>>({ facts, act, fail });
  };
  return Object.assign(hook as FastifyGate, { ready: () => gate.ready() });
}

/**
 * Returns a new stream of the body that an earlier hook produced. Fastify compares the length on the wire with the
 * header.
 */
function refilled({ receivedEncodedLength }: RequestPayload, bytes: Uint8Array): RequestPayload {
  const stream = Readable.from([bytes], { objectMode: false });
  return receivedEncodedLength === undefined ? stream : Object.assign(stream, { receivedEncodedLength });
}

/** The application's own CORS headers stay as they are. */
function withoutOwnCors(reply: FastifyReply, headers: Readonly<Record<string, string>>): Record<string, string> {
  const isOwn = (name: string) => name.startsWith("Access-Control-") && reply.hasHeader(name);
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !isOwn(name)));
}
