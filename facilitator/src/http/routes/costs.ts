import { hash32Schema, TurnpikeError } from "turnpike/protocol";
import { z } from "zod";
import { type Endpoint, endpoint } from "../endpoint";
import type { ApiServices } from "../services";

const transactionCostSchema = z.object({
  transaction: hash32Schema,
  purpose: z.string(),
  gasUsed: z.number().int(),
  gasPriceWei: z.string(),
  costWei: z.string(),
  costCents: z.number().optional(),
  payments: z.number().int(),
});

export function costEndpoints({ costs }: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/transactions/{hash}/cost",
      tag: "service",
      summary:
        "What one of this Facilitator's transactions has cost in gas, and in token cents where the price is set.",
      params: z.object({ hash: hash32Schema }),
      answers: { 200: transactionCostSchema },
      async handle({ params }) {
        const cost = await costs.of(params.hash);
        if (!cost) throw new TurnpikeError("NotFound", "no mined transaction of this Facilitator has this hash");
        return { status: 200, body: cost };
      },
    }),
  ];
}
