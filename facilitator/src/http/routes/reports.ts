/** What a provider's gates have counted. */
import { reportReceiptSchema, reportSchema } from "turnpike/facilitator";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import type { Doors } from "../services";

export function reportEndpoints(doors: Doors): Endpoint[] {
  return [
    endpoint({
      method: "post",
      path: "/reports",
      tag: "analytics",
      admission: admissionTo(doors, "reports"),
      summary:
        "Tells what a gate has counted: how many were asked to pay, refused and why, paid, served. An id counts once.",
      body: reportSchema,
      answers: { 200: reportReceiptSchema },
      handle: async ({ body, caller: { provider } }) => ({
        status: 200,
        body: await doors.reports.take(provider, body),
      }),
    }),
  ];
}
