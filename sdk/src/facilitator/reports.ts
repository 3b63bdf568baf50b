/**
 * Wire body of `POST /reports`, a gate's counts of its requests by route and hour: how many were asked to pay, refused
 * (and why), paid and served. No payer, no query, no single request.
 */
import * as z from "zod";
import { addressSchema, amountSchema } from "../protocol";
import { HOUR_SEC } from "../protocol/periods";

/** entries in one report */
export const MAX_REPORT_ENTRIES = 200;

/**
 * asked: a 402 to a request without a credential. refused: a 402 to one whose credential was not accepted, `cause` says
 * why. turned_away: 400, 403, 409 or 5xx, where no price would help. paid: a one-time payment was accepted. subscribed:
 * a subscription paid. served: the handler answered. failed: it did not, and the payment was released. lost: what the
 * gate could not keep until it was reported.
 */
export const REPORT_STEPS = [
  "asked",
  "refused",
  "turned_away",
  "paid",
  "subscribed",
  "served",
  "failed",
  "lost",
] as const;

/** The outcome of a request. */
export type ReportStep = (typeof REPORT_STEPS)[number];

/** All routes beyond those that a gate, or the Facilitator, counts separately. */
export const OTHER_RESOURCES = "*";

export const reportEntrySchema = z.object({
  /** start of the hour, unix seconds of the chain's time */
  hour: z
    .number()
    .int()
    .nonnegative()
    .refine((hour) => hour % HOUR_SEC === 0, "must be the start of an hour"),
  /** the path as the route has it, e.g. /reports/:id; never a query */
  resource: z
    .string()
    .regex(/^(?:\/[!"$-;=@-~]{0,127}|\*)$/, "must be a path of at most 128 characters, without a query"),
  step: z.enum(REPORT_STEPS),
  /** the error's code, and its reason after a slash */
  cause: z
    .string()
    .regex(/^[A-Za-z0-9_]{1,40}(?:\/[A-Za-z0-9_]{1,40})?$/, "must be a code, or a code and a reason")
    .optional(),
  /** what the first option of the 402 was */
  offer: z.enum(["one-time", "subscription"]).optional(),
  token: addressSchema.optional(),
  count: z
    .number()
    .int()
    .min(1)
    .max(2 ** 40),
  /** all together: asked for, or paid; base units */
  amount: amountSchema.refine((amount) => amount < 1n << 160n, "must be less than 2^160"),
});

export type ReportEntry = z.output<typeof reportEntrySchema>;

export type ReportEntryWire = z.input<typeof reportEntrySchema>;

export const reportSchema = z.object({
  /** created by the gate: the same report, sent again, counts once */
  id: z.string().regex(/^[0-9a-f]{32}$/, "must be 32 hex digits"),
  entries: z.array(reportEntrySchema).min(1).max(MAX_REPORT_ENTRIES),
});

export type Report = z.output<typeof reportSchema>;

export type ReportWire = z.input<typeof reportSchema>;

export const reportReceiptSchema = z.object({ status: z.enum(["counted", "repeated"]) });

export type ReportReceipt = z.output<typeof reportReceiptSchema>;

// Wire body of `GET /analytics/funnel`: from the first 402 to the answer, and what was lost at each step.

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
