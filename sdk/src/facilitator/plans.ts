/**
 * Wire bodies of plans: every term that goes into the planId, so that a reader can recompute it instead of trusting the
 * answer.
 */
import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema, periodSchema } from "../protocol";

export const planSchema = z.object({
  planId: hash32Schema,
  network: z.string().min(1).max(64),
  chainId: z.number().int().positive(),
  turnpike: addressSchema,
  provider: addressSchema,
  token: addressSchema,
  /** price of one period, base units */
  amount: amountSchema,
  /** seconds; of a period in months a nominal length, 30 days for each month */
  interval: z.number().int().positive(),
  /** what counts: seconds, or calendar months (UTC) */
  period: periodSchema,
  /** seconds */
  grace: z.number().int().nonnegative(),
  /** receives every charge and debit now */
  payTo: addressSchema,
  /** the payee at creation, which the planId proves */
  firstPayTo: addressSchema,
  /** another payee that is proposed, and from when on (unix seconds) anyone can apply it */
  proposedPayTo: z.object({ payTo: addressSchema, effectiveAt: z.number().int().positive() }).optional(),
  salt: hash32Schema,
  /** the text as it was emitted, byte for byte */
  metadata: z.string().max(16_384),
  deprecated: z.boolean(),
  /** the plan its provider points to instead */
  successor: hash32Schema.optional(),
});

export type Plan = z.output<typeof planSchema>;

export type PlanWire = z.input<typeof planSchema>;

export const planListSchema = z.object({
  plans: z.array(planSchema).max(200),
  /** pass as `cursor` for what follows; absent at the end */
  next: z.string().max(128).optional(),
});

export type PlanList = z.output<typeof planListSchema>;
