/** What the page that a provider sees first and its daily digest both say. Amounts are base units, times unix seconds. */
import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema } from "../protocol";
import { SCHEMES } from "./analytics";

const timeSchema = z.number().int().nonnegative();

const renewalsSchema = {
  token: addressSchema,
  count: z.number().int().positive(),
  /** sum of one period's price of each */
  amount: amountSchema,
};

/** What is wrong on chain now. Empty where nothing is. */
export const matters = {
  /** ended without a renewal, still served in their grace */
  pastDue: z.array(z.object({ ...renewalsSchema, /** end of the oldest paid period */ since: timeSchema })),
  /** due within seven days, of subscribers who were warned that their funds or approval do not suffice */
  atRisk: z.array(z.object({ ...renewalsSchema, /** the first to fall due */ firstAt: timeSchema })),
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
};

/** The kind of a movement. */
export const MOVEMENT_KINDS = [...SCHEMES, "refund"] as const;

export const movementAmounts = {
  /** received */
  gross: amountSchema,
  /** paid back */
  refunded: amountSchema,
  /** `gross` without `refunded`: negative for a refund */
  net: z.string().regex(/^-?\d{1,78}$/),
};

/** Sums of movements, by token and kind. */
export const totalsSchema = z.array(
  z.object({
    token: addressSchema,
    decimals: z.number().int().min(0).max(77).optional(),
    kind: z.enum(MOVEMENT_KINDS),
    count: z.number().int(),
    ...movementAmounts,
  }),
);

/** A provider's day that is over, and what it should look at. */
export const digestSchema = z.looseObject({
  provider: addressSchema,
  /** the day, in UTC; `to` is exclusive */
  from: timeSchema,
  to: timeSchema,
  /** of its movements, as the ledger has them */
  totals: totalsSchema,
  ...matters,
  /** endpoints that failed since their last success, or that the service disabled */
  endpoints: z.array(
    z.object({
      id: z.string(),
      description: z.string(),
      status: z.enum(["enabled", "disabled"]),
      failures: z.number().int().nonnegative(),
    }),
  ),
});
