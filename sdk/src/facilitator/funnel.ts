/** Wire body of `GET /analytics/funnel`: from the first 402 to the answer, and what was lost on the way. */
import * as z from "zod";
import { addressSchema, amountSchema } from "../protocol";

/**
 * asked: 402s with a price, as gates tell. signed: one-time payments that this Facilitator accepted. settled: those that
 * are on chain. paid: payments that gates accepted. served: paid requests that were answered.
 */
export const FUNNEL_STEPS = ["asked", "signed", "settled", "paid", "served"] as const;
/** A step of the funnel. */
export type FunnelStep = (typeof FUNNEL_STEPS)[number];

const countSchema = z.number().int();
const timeSchema = z.number().int().nonnegative();
const sumSchema = z.object({ count: countSchema, amount: amountSchema });

export const funnelSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  /** inclusive */
  from: timeSchema,
  /** exclusive */
  to: timeSchema,
  /** the one route that was asked about; the Facilitator's own steps, signed and settled, are nothing then */
  resource: z.string().optional(),
  steps: z.array(sumSchema.extend({ step: z.enum(FUNNEL_STEPS) })),
  /** what 402s said, highest loss first */
  causes: z.array(
    z.object({
      cause: z.string(),
      offer: z.enum(["one-time", "subscription"]),
      count: countSchema,
      asked: amountSchema,
      /** asked for and not paid: payments count against first requests, then against the causes that asked for most */
      lost: amountSchema,
    }),
  ),
  /** 400, 403, 409 and 5xx: no price would have helped */
  turnedAway: z.array(z.object({ cause: z.string(), count: countSchema })),
  /** paid requests whose handler failed: the payment was given back */
  failed: countSchema,
  bySubscription: z.object({ count: countSchema }),
  /** asked for and not paid: the sum over the causes */
  lost: amountSchema,
  /** observations that gates could not keep until they were told */
  lostReports: countSchema,
  /** at most 100, those that asked for most first; empty for all providers together */
  resources: z.array(
    z.object({
      resource: z.string(),
      asked: sumSchema,
      paid: sumSchema,
      served: sumSchema,
      /** asked for and not paid, at least nothing */
      lost: amountSchema,
    }),
  ),
});
export type Funnel = z.output<typeof funnelSchema>;
export type FunnelWire = z.input<typeof funnelSchema>;
