/** What a provider's programs do all day: debits of allowances, reports of gates, and reading events. */
import { DEBIT_ENDPOINTS, EVENT_ENDPOINTS, REPORT_ENDPOINTS } from "turnpike/facilitator";
import { type Endpoint, ok, routes } from "../endpoint";
import type { ApiServices } from "../services";

export function debitEndpoints(services: ApiServices): Endpoint[] {
  const { providers, authorizeWaitMs, untilDraining, metrics } = services;
  return routes(services, DEBIT_ENDPOINTS, {
    async createDebits({ body, caller: { provider } }) {
      const outcome = await untilDraining(providers.debits.collect(provider, body, { waitMs: authorizeWaitMs }));
      const answers =
        outcome === "draining"
          ? body.map(({ idHash, index }) => ({ status: "pending" as const, idHash, index }))
          : outcome;
      for (const { status } of answers) metrics.debits.inc({ status });
      const isPending = answers.some(({ status }) => status === "pending");
      return isPending
        ? { status: 202, body: answers, headers: { "retry-after": "1" } }
        : { status: 200, body: answers };
    },
    getDebitRights: async ({ body, caller: { provider } }) => ok(await providers.debits.rights(provider, body.planIds)),
  });
}

export function reportEndpoints(services: ApiServices): Endpoint[] {
  return routes(services, REPORT_ENDPOINTS, {
    createReport: async ({ body, caller: { provider } }) => ok(await services.reports.take(provider, body)),
  });
}

/** The feed of events of a provider's plans, subscriptions and payments, in commit order. */
export function eventEndpoints(services: ApiServices): Endpoint[] {
  return routes(services, EVENT_ENDPOINTS, {
    async listEvents({ query: { cursor, limit, type, subject, network }, caller: { provider, chainIds } }) {
      const own = services.network.chainId;
      const owner = { provider, chainIds: network === undefined ? chainIds : chainIds.filter((id) => id === own) };
      return ok(await services.providers.events({ owner, after: cursor, limit, type, subject }));
    },
  });
}
