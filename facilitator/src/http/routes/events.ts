/** The feed of events of a provider's plans, subscriptions and payments, in commit order. */
import { eventListSchema } from "turnpike/facilitator";
import { hash32Schema } from "turnpike/protocol";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { cursorSchema, limitSchema } from "../page";
import type { ApiServices } from "../services";

export function eventEndpoints(services: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/events",
      tag: "events",
      summary: "The provider's events after a cursor; pass `next` to go on, also when nothing follows yet.",
      admission: admissionTo(services, "read"),
      query: z.object({
        cursor: cursorSchema,
        limit: limitSchema,
        type: z
          .string()
          .regex(/^[a-z_]{1,32}\.[a-z_]{1,32}$/, "must be an event type such as payment.settled")
          .optional(),
        subject: hash32Schema.optional(),
      }),
      answers: { 200: eventListSchema },
      async handle({ query: { cursor, limit, type, subject }, caller: { provider } }) {
        return {
          status: 200,
          body: await services.providers.events({ provider, after: cursor, limit, type, subject }),
        };
      },
    }),
  ];
}
