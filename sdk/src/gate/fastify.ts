/** The gate for Fastify 4 and 5: `app.get("/report", { preHandler: paymentGate({ pricing }) }, handler)`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { answerOf } from "./answer";
import { type DefaultGateOptions, gateOf } from "./default-provider";
import type { Gate } from "./gate";
import { keepPrivate, setAbsent, watchResponse } from "./node-response";
import type { Payment } from "./payment";
import { gateRequestOfNode } from "./request";
import { openVisit, visits } from "./visit";

/** As much of Fastify's types as is used; the package itself is not needed to build this one. */
export interface FastifyLikeRequest {
  readonly raw: IncomingMessage;
  readonly originalUrl: string;
  payment?: Payment;
}
export interface FastifyLikeReply {
  readonly raw: ServerResponse;
  code(status: number): FastifyLikeReply;
  header(name: string, value: string): FastifyLikeReply;
  send(body: string): FastifyLikeReply;
}

export interface FastifyGate {
  (request: FastifyLikeRequest, reply: FastifyLikeReply, done: (error?: Error) => void): void;
  ready(): Promise<void>;
}

export function paymentGate(options: DefaultGateOptions<FastifyLikeRequest>): FastifyGate {
  return fastifyGate(gateOf(options));
}

export function fastifyGate(gate: Gate): FastifyGate {
  const hook = (request: FastifyLikeRequest, reply: FastifyLikeReply, done: (error?: Error) => void): void => {
    const facts = { ...gateRequestOfNode(request.raw, request), target: request.originalUrl };
    gate.decide(facts).then((decision) => {
      if (decision.kind !== "allow") {
        const { status, headers, body } = answerOf(decision);
        reply.code(status);
        for (const [name, value] of Object.entries(headers)) reply.header(name, value);
        reply.send(body);
        return;
      }
      const visit = openVisit(facts, decision);
      request.payment = visit.payment ?? decision.payment;
      if (decision.payment.kind !== "free") {
        keepPrivate(reply.raw, gate.cors);
        setAbsent(reply.raw, decision.headers);
        const onRefusedCharge = () => gate.answerOfRefusedCharge(visit);
        watchResponse({ response: reply.raw, visit, onRefusedCharge });
      }
      visits.run(visit, done);
    }, done);
  };
  return Object.assign(hook, { ready: () => gate.ready() });
}
