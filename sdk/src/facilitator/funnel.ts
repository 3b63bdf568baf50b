/** Wire body of `GET /analytics/funnel`: from the first 402 to the answer, and what was lost at each step. */
import * as z from "zod";
import { addressSchema, amountSchema } from "../protocol";

/**
 * asked: 402s with a price, as gates report. signed: one-time payments that this Facilitator accepted. settled: those
 * that are on chain. paid: payments that gates accepted. served: paid requests that were answered.
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
  /** what 402s said, highest loss first; of each row and of all of them `asked` is `answered` and `lost` together */
  causes: z.array(
    z.object({
      cause: z.string(),
      offer: z.enum(["one-time", "subscription"]),
      count: countSchema,
      asked: amountSchema,
      /** what access followed: by payments of the same resource by amount, by subscriptions one price each; moves no money */
      answered: amountSchema,
      lost: amountSchema,
    }),
  ),
  /** 400, 403, 409 and 5xx, where no price would have helped, and payments that were presented again */
  turnedAway: z.array(z.object({ cause: z.string(), count: countSchema })),
  /** paid requests whose handler failed: the payment was released */
  failed: countSchema,
  /** served requests that a subscription paid for: none of them is among `served` */
  bySubscription: z.object({ count: countSchema }),
  /** of what was asked for, what access followed: the sum over the causes, and over the resources */
  answered: amountSchema,
  /** the same by what was offered first */
  answeredBy: z.object({ "one-time": amountSchema, subscription: amountSchema }),
  /** money that moved, asked for or not: one-time payments, and all that subscriptions were charged; together the volume */
  received: z.object({ "one-time": amountSchema, subscription: amountSchema }),
  /** asked for and never followed by access: the sum over the causes, and over the resources */
  lost: amountSchema,
  /** observations that gates could not keep until they were reported */
  lostReports: countSchema,
  /** at most 201, those that asked for most first; empty for all providers together */
  resources: z.array(
    z.object({
      resource: z.string(),
      asked: sumSchema,
      answered: amountSchema,
      /** payments that gates accepted there, asked for before or not */
      paid: sumSchema,
      /** paid at once */
      served: sumSchema,
      /** served requests that a subscription paid for */
      bySubscription: z.object({ count: countSchema }),
      lost: amountSchema,
    }),
  ),
});

export type Funnel = z.output<typeof funnelSchema>;

export type FunnelWire = z.input<typeof funnelSchema>;
