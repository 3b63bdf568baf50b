/**
 * Wire body of `POST /reports`, a gate's counts of its requests by route and hour: how many were asked to pay, refused
 * (and why), paid and served. No payer, no query, no single request.
 */
import * as z from "zod";
import { addressSchema, amountSchema } from "../protocol";
import { HOUR_SEC } from "../protocol/durations";

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
