/** The feed of what happened, in the order of commit. */
import { eventListSchema } from "turnpike/facilitator";
import { hash32Schema } from "turnpike/protocol";
import { z } from "zod";
import type { Doors } from "../app";
import { type Endpoint, endpoint } from "../endpoint";
import { cursorSchema, limitSchema } from "../page";

export function eventEndpoints({ events }: Doors): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/events",
      tag: "events",
      summary: "Events after a cursor; pass `next` to go on, also when nothing follows yet.",
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
      async handle({ query: { cursor, limit, type, subject } }) {
        return { status: 200, body: await events.list({ after: cursor, limit, type, subject }) };
      },
    }),
  ];
}
