/** Debits of allowances, by providers whose plan's operator is the relayer. */
import {
  debitRightsRequestSchema,
  debitRightsResponseSchema,
  debitsRequestSchema,
  debitsResponseSchema,
} from "turnpike/facilitator";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import type { ApiServices } from "../services";

export function debitEndpoints(services: ApiServices): Endpoint[] {
  const { providers, authorizeWaitMs, untilDraining, metrics } = services;
  return [
    endpoint({
      method: "post",
      path: "/debits",
      tag: "debits",
      summary: "Debit allowances of the provider's subscribers. Safe to repeat: an idHash and index is debited once.",
      admission: admissionTo(services, "debits"),
      body: debitsRequestSchema,
      answers: { 200: debitsResponseSchema, 202: debitsResponseSchema },
      async handle({ body, caller: { provider } }) {
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
    }),
    endpoint({
      method: "post",
      path: "/debits/rights",
      tag: "debits",
      summary: "Whether debits of these plans would be collected for the provider that asks, and by which accounts.",
      admission: admissionTo(services, "debits"),
      body: debitRightsRequestSchema,
      answers: { 200: debitRightsResponseSchema },
      handle: async ({ body, caller: { provider } }) => ({
        status: 200,
        body: await providers.debits.rights(provider, body.planIds),
      }),
    }),
  ];
}
