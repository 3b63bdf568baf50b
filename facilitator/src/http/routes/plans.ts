/** Plans, with every term that goes into the planId. */
import { planListSchema, planSchema } from "turnpike/facilitator";
import { addressSchema, hash32Schema } from "turnpike/protocol";
import { z } from "zod";
import { type Endpoint, endpoint } from "../endpoint";
import { cursorSchema, limitSchema } from "../page";
import type { ApiServices } from "../services";

export function planEndpoints({ subscriptions }: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/plans",
      tag: "plans",
      summary: "Plans in the order of their creation.",
      query: z.object({ provider: addressSchema.optional(), cursor: cursorSchema, limit: limitSchema }),
      answers: { 200: planListSchema },
      async handle({ query: { provider, cursor, limit } }) {
        const { plans, next } = await subscriptions.plans({ provider, after: cursor, limit });
        return { status: 200, body: { plans, ...(next === undefined ? {} : { next: String(next) }) } };
      },
    }),
    endpoint({
      method: "get",
      path: "/plans/{planId}",
      tag: "plans",
      summary: "One plan.",
      params: z.object({ planId: hash32Schema }),
      answers: { 200: planSchema },
      handle: async ({ params }) => ({ status: 200, body: await subscriptions.plan(params.planId) }),
    }),
  ];
}
