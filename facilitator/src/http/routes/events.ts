/** The feed of events of a provider's plans, subscriptions and payments, in commit order. */
import { eventListSchema } from "turnpike/facilitator";
import { hash32Schema } from "turnpike/protocol";
import { z } from "zod";
import { EVENT_CURSOR } from "../../events/cursor";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { limitSchema } from "../page";
import type { ApiServices } from "../services";

export function eventEndpoints(services: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/events",
      tag: "events",
      summary: "The provider's events after a cursor; pass `next` to go on, also when nothing follows yet.",
      admission: admissionTo(services, "read", { isShared: true }),
      query: z.object({
        cursor: z.string().regex(EVENT_CURSOR, "must be a cursor that an earlier page returned").default("0"),
        limit: limitSchema,
        type: z
          .string()
          .regex(/^[a-z_]{1,32}\.[a-z_]{1,32}$/, "must be an event type such as payment.settled")
          .optional(),
        subject: hash32Schema.optional(),
        /** of several chains, the one whose events are read */
        network: z.string().max(64).optional(),
      }),
      answers: { 200: eventListSchema },
      async handle({ query: { cursor, limit, type, subject, network }, caller: { provider, chainIds } }) {
        const own = services.network.chainId;
        const owner = { provider, chainIds: network === undefined ? chainIds : chainIds.filter((id) => id === own) };
        return { status: 200, body: await services.providers.events({ owner, after: cursor, limit, type, subject }) };
      },
    }),
  ];
}
