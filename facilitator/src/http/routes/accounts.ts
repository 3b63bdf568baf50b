/** Token accounts: what an agent without an RPC must know before it signs, and signed permits; and the plans. */
import { ACCOUNT_ENDPOINTS, PLAN_ENDPOINTS } from "turnpike/facilitator";
import { type Endpoint, ok, routes } from "../endpoint";
import { requireOwnNetwork } from "../request";
import type { ApiServices } from "../services";

export function accountEndpoints(services: ApiServices): Endpoint[] {
  const { subscriptions, authorizeWaitMs, monotonicMs, network } = services;
  const { permits } = subscriptions;
  return routes(services, ACCOUNT_ENDPOINTS, {
    getAccount: async ({ params, query }) => ok(await permits.account(params.address, query.token, query.spender)),
    listAccountSubscriptions: async ({ params, query }) => ok(await subscriptions.of(params.address, query)),
    async submitPermit({ body }) {
      requireOwnNetwork(body.network, network);
      const { token, owner } = body;
      const outcome = await permits.apply(body, monotonicMs() + authorizeWaitMs);
      if (outcome.kind === "done") {
        const { approval, transaction } = outcome;
        return {
          status: 200,
          body: { token, owner, approval: approval.toString(), ...(transaction && { transaction }) },
        };
      }
      return {
        status: 202,
        body: { status: "pending" as const, id: outcome.id },
        headers: { "retry-after": "1" },
      };
    },
  });
}

/** With every term that goes into the planId. */
export function planEndpoints(services: ApiServices): Endpoint[] {
  const { subscriptions } = services;
  return routes(services, PLAN_ENDPOINTS, {
    async listPlans({ query: { provider, cursor, limit } }) {
      const { plans, next } = await subscriptions.plans({ provider, after: cursor, limit });
      return ok({ plans, ...(next === undefined ? {} : { next: String(next) }) });
    },
    getPlan: async ({ params }) => ok(await subscriptions.plan(params.planId)),
  });
}
