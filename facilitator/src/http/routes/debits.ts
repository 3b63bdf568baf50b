/** Debits of allowances, by providers whose plan's operator is the relayer. */
import { debitsRequestSchema, debitsResponseSchema } from "turnpike/facilitator";
import { admissionTo } from "../admission";
import type { Doors } from "../app";
import { type Endpoint, endpoint } from "../endpoint";

export function debitEndpoints(doors: Doors): Endpoint[] {
  const { providers, authorizeWaitMs, untilDraining, metrics } = doors;
  return [
    endpoint({
      method: "post",
      path: "/debits",
      tag: "debits",
      summary: "Debit allowances of the provider's subscribers. Safe to repeat: an idHash and index is debited once.",
      admission: admissionTo(doors, "debits"),
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
  ];
}
