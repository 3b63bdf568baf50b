/** Reports of a provider's gates. */
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
      summary:
        "Tells what a gate has counted: how many were asked to pay, refused and why, paid, served. An id counts once.",
      body: reportSchema,
      answers: { 200: reportReceiptSchema },
      handle: async ({ body, caller: { provider } }) => ({
        status: 200,
        body: await services.reports.take(provider, body),
      }),
    }),
  ];
}
