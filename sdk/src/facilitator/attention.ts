/** Wire bodies of what a provider should look at now. Amounts are base units, times unix seconds. */
import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema } from "../protocol";
import { webhookEndpointSchema } from "./webhook-endpoints";

const timeSchema = z.number().int().nonnegative();

const renewalsSchema = {
  token: addressSchema,
  count: z.number().int().positive(),
  /** sum of one period's price of each */
  amount: amountSchema,
};

/** What a provider should look at now. Empty where nothing is wrong. */
export const attentionSchema = z.object({
  /** ended without a renewal, still served in their grace */
  pastDue: z.array(z.object({ ...renewalsSchema, /** end of the oldest paid period */ since: timeSchema })),
  /** due within seven days, of subscribers who were warned that their funds or approval do not suffice */
  atRisk: z.array(z.object({ ...renewalsSchema, /** the first to fall due */ firstAt: timeSchema })),
  /** webhook endpoints that failed since their last success, or that the service disabled */
  endpoints: z.array(webhookEndpointSchema),
  /** payments that were accepted over a minute ago and have not settled, the oldest first; at most 20 */
  stuck: z
    .array(
      z.object({
        paymentId: hash32Schema,
        payer: addressSchema,
        token: addressSchema,
        amount: amountSchema,
        acceptedAt: timeSchema,
        /** queued: in no transaction; sent: in one that is not mined; parked: mined without moving it */
        state: z.enum(["queued", "sent", "parked"]),
        attempts: z.number().int().nonnegative(),
      }),
    )
    .max(20),
});

export type AttentionWire = z.input<typeof attentionSchema>;
