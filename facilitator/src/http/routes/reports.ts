import { reportReceiptSchema, reportSchema } from "turnpike/facilitator";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import type { ApiServices } from "../services";

export function reportEndpoints(services: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "post",
      path: "/reports",
      tag: "analytics",
      admission: admissionTo(services, "reports"),
      summary: "Store the counts of a gate: requests asked to pay, refused and why, paid, served. An id counts once.",
      body: reportSchema,
      answers: { 200: reportReceiptSchema },
      handle: async ({ body, caller: { provider } }) => ({
        status: 200,
        body: await services.reports.take(provider, body),
      }),
    }),
  ];
}
