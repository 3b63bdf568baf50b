/** Adapts a gate to fetch-style handlers. */
import { answerOf, errorAnswer } from "../core/answer";
import type { Gate } from "../core/gate";
import type { Payment } from "../core/payment";
import { gateRequestOfFetch } from "../core/request";
import { openRequestScope, requestScopes, settleScope } from "../core/request-scope";
import { responseOf, settleResponse } from "./fetch-response";

/** The platform's request, paid for. */
export type PaidRequest<Req extends Request = Request> = Req & { readonly payment: Payment };

/** Further arguments of the platform follow the request. */
export type PaidHandler<Req extends Request, Rest extends unknown[]> = (
  request: PaidRequest<Req>,
  ...rest: Rest
) => Response | Promise<Response>;

/** Gates fetch-style handlers: `request.payment` says who paid, and how. */
export interface FetchGate {
  /**
   * Wraps a handler, which then runs for paid requests alone, with `payment` on the request and the platform's further
   * arguments after it. What the handler throws reaches the caller, and its payment is released.
   */
  <Rest extends unknown[], Req extends Request = Request>(
    handler: PaidHandler<Req, Rest>,
  ): (request: Req, ...rest: Rest) => Promise<Response>;
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked.
   */
  ready(): Promise<void>;
}

/**
 * Creates the wrapper from a provider's gate.
 * @param isAnswer whether a thrown value is how the platform expresses a response below 500
 */
export function fetchGate(gate: Gate, isAnswer: (thrown: unknown) => boolean = () => false): FetchGate {
  const wrap = <Rest extends unknown[], Req extends Request = Request>(handler: PaidHandler<Req, Rest>) => {
    return async (request: Req, ...rest: Rest): Promise<Response> => {
      const facts = gateRequestOfFetch(request);
      const decision = await gate.decide(facts);
      if (decision.kind !== "allow") return responseOf(answerOf(decision));
      const scope = openRequestScope(facts, decision);
      const paid = Object.assign(request, { payment: scope.payment ?? decision.payment });
      let response: Response;
      try {
        response = await requestScopes.run(scope, () => handler(paid, ...rest));
      } catch (error) {
        if (isAnswer(error)) await settleScope(scope, "use");
        const failed = responseOf(errorAnswer(error));
        const settled = await settleResponse({ gate, scope, decision, response: failed, threw: true });
        if (scope.refused) return settled;
        throw error;
      }
      return settleResponse({ gate, scope, decision, response, threw: false });
    };
  };
  return Object.assign(wrap, { ready: () => gate.ready() });
}
