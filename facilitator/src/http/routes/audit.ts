import { auditListSchema } from "turnpike/facilitator";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { cursorSchema, limitSchema } from "../page";
import type { ApiServices } from "../services";

export function auditEndpoints(services: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/audit",
      tag: "keys",
      summary: "Administrative acts, the newest first: who, what, when, from where.",
      admission: admissionTo(services, "keys", { isShared: true }),
      query: z.object({ cursor: cursorSchema, limit: limitSchema }),
      answers: { 200: auditListSchema },
      async handle({ caller, query: { cursor, limit } }) {
        return { status: 200, body: await services.providers.acts(caller, { before: cursor, limit }) };
      },
    }),
  ];
}
