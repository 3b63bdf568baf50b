/** Wire bodies of what a provider should look at now. Amounts are base units, times unix seconds. */
import * as z from "zod";
import { matters } from "./digest";
import { webhookEndpointSchema } from "./webhook-endpoints";

/** What a provider should look at now. Empty where nothing is wrong. */
export const attentionSchema = z.object({
  ...matters,
  /** webhook endpoints that failed since their last success, or that the service disabled */
  endpoints: z.array(webhookEndpointSchema),
});

export type AttentionWire = z.input<typeof attentionSchema>;
