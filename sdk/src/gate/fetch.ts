/** The gate for fetch-style handlers (Next.js routes, Deno, Bun, workers with Node's APIs): `(request) => Response`. */
import { answerOf, errorAnswer } from "./answer";
import { type DefaultGateOptions, gateOf } from "./default-provider";
import { responseOf, settleResponse } from "./fetch-response";
import type { Gate } from "./gate";
import type { Payment } from "./payment";
import { gateRequestOfFetch } from "./request";
import { openVisit, visits } from "./visit";

/** What a handler gets beside the request; further arguments of the platform follow. */
export type PaidHandler<Rest extends unknown[]> = (
  request: Request & { readonly payment: Payment },
  ...rest: Rest
) => Response | Promise<Response>;

export interface FetchGate {
  /** Wraps a handler, so that it sees only paid requests. A throw of the handler is thrown on, its payment released. */
  <Rest extends unknown[]>(handler: PaidHandler<Rest>): (request: Request, ...rest: Rest) => Promise<Response>;
  ready(): Promise<void>;
}

export function paymentGate(options: DefaultGateOptions<Request>): FetchGate {
  return fetchGate(gateOf(options));
}

export function fetchGate(gate: Gate): FetchGate {
  const wrap = <Rest extends unknown[]>(handler: PaidHandler<Rest>) => {
    return async (request: Request, ...rest: Rest): Promise<Response> => {
      const facts = gateRequestOfFetch(request);
      const decision = await gate.decide(facts);
      if (decision.kind !== "allow") return responseOf(answerOf(decision));
      const visit = openVisit(facts, decision);
      const paid = Object.assign(request, { payment: visit.payment ?? decision.payment });
      try {
        const response = await visits.run(visit, () => handler(paid, ...rest));
        return await settleResponse({ gate, visit, decision, response, threw: false });
      } catch (error) {
        const failed = responseOf(errorAnswer(error));
        const settled = await settleResponse({ gate, visit, decision, response: failed, threw: true });
        if (visit.refused) return settled;
        throw error;
      }
    };
  };
  return Object.assign(wrap, { ready: () => gate.ready() });
}
