/** What concerns the service as a whole, for the wallets that OPERATORS names. */
import { systemSchema } from "turnpike/facilitator";
import { operatorAdmission } from "../admission";
import type { Doors } from "../app";
import { type Endpoint, endpoint } from "../endpoint";

export function operatorEndpoints(doors: Doors): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/operator/system",
      tag: "operator",
      summary: "Chain, lanes with their gas money, queues, and what the last day has cost.",
      admission: operatorAdmission(doors),
      answers: { 200: systemSchema },
      handle: async () => ({ status: 200, body: await doors.system() }),
    }),
  ];
}
