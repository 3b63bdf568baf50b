/** Wire bodies of a payer's charges: every provider's, at one Facilitator. Amounts are base units, times unix seconds. */
import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema } from "../protocol";
import { SCHEMES } from "./analytics";

const timeSchema = z.number().int().nonnegative();

const charge = {
  at: timeSchema,
  /** whom it was paid to, or whose plan it was charged for */
  provider: addressSchema,
  token: addressSchema,
  amount: amountSchema,
  transaction: hash32Schema.optional(),
  /** base units of its settled refunds; absent: none */
  refunded: amountSchema.optional(),
};

/** pass as `cursor` for what follows; absent at the end */
const next = z.string().max(128).optional();

export const paidListSchema = z.object({
  payments: z.array(
    z.object({
      id: hash32Schema,
      ...charge,
      /** origin and path of what was bought, never the query */
      resource: z.string().max(2_048),
    }),
  ),
  next,
});

export type PaidListWire = z.input<typeof paidListSchema>;

export const chargedListSchema = z.object({
  charges: z.array(z.object({ ...charge, scheme: z.enum(SCHEMES), idHash: hash32Schema, planId: hash32Schema })),
  next,
});

export type ChargedListWire = z.input<typeof chargedListSchema>;

export const spendSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  /** inclusive */
  from: timeSchema,
  /** exclusive */
  to: timeSchema,
  /** newest day first; refunds are not subtracted */
  days: z.array(z.object({ at: timeSchema, provider: addressSchema, count: z.number().int(), amount: amountSchema })),
});

export type SpendWire = z.input<typeof spendSchema>;
