/**
 * Wire bodies of what subscriptions bring and how that went: recurring revenue, renewals, allowances; and how long
 * settling takes.
 */
import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema } from "../protocol";
import { subscriptionSchema } from "./subscriptions";

const countSchema = z.number().int();

const timeSchema = z.number().int().nonnegative();

export const renewalFiguresSchema = z.object({
  from: timeSchema,
  to: timeSchema,
  renewed: countSchema,
  /** attempts that failed; several may precede one renewal */
  failedAttempts: countSchema,
  /** periods that ended without one, grace included */
  pastDue: countSchema,
  expired: countSchema,
  /** why attempts failed, most frequent first */
  causes: z.array(z.object({ cause: z.string(), count: countSchema })),
  /** by day; days on which nothing happened are left out */
  points: z.array(
    z.object({
      at: timeSchema,
      renewed: countSchema,
      failedAttempts: countSchema,
      pastDue: countSchema,
      expired: countSchema,
    }),
  ),
});

export type RenewalFigures = z.output<typeof renewalFiguresSchema>;

export type RenewalFiguresWire = z.input<typeof renewalFiguresSchema>;

const sumSchema = z.object({ count: countSchema, amount: amountSchema });

const unpaid = {
  /** no longer collectable: the subscription expired, was cancelled or is paused */
  lost: sumSchema,
  /** still tried */
  open: sumSchema,
  /** collected by a later attempt, or by the subscriber's own act */
  recovered: sumSchema,
};

export const failedRenewalsSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  from: timeSchema,
  to: timeSchema,
  ...unpaid,
  /**
   * why the first attempt of the period failed, most lost first; `NotTried` where there was none before it was too late
   */
  causes: z.array(z.object({ cause: z.string(), ...unpaid })),
});

/** Periods of the range that were due and not charged at the first attempt, with their prices and current state. */
export type FailedRenewals = z.output<typeof failedRenewalsSchema>;

export type FailedRenewalsWire = z.input<typeof failedRenewalsSchema>;

export const recurringSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  from: timeSchema,
  to: timeSchema,
  /** every day of the range */
  points: z.array(
    z.object({
      at: timeSchema,
      /**
       * what was charged for the periods that ran on this day, brought to 30 days; rounded down per length of period
       */
      recurring: amountSchema,
      /** periods that ran on this day */
      subscriptions: countSchema,
      created: countSchema,
      cancelled: countSchema,
      expired: countSchema,
    }),
  ),
  churn: z.object({
    /** subscriptions that were active on the day before the range; never fewer than `lost` */
    atStart: countSchema,
    /** of these, those that were cancelled or expired within it and whose subscriber did not come back */
    lost: countSchema,
    /** lost / atStart; absent when there were none */
    rate: z.number().nonnegative().optional(),
  }),
});

export type Recurring = z.output<typeof recurringSchema>;

export type RecurringWire = z.input<typeof recurringSchema>;

export const latencySchema = z.object({
  from: timeSchema,
  to: timeSchema,
  /** settled payments that were looked at: the newest of the range */
  sampled: countSchema,
  /** from acceptance until this service saw the transfer on chain, milliseconds; absent without payments */
  p50Ms: z.number().optional(),
  p90Ms: z.number().optional(),
  p95Ms: z.number().optional(),
  p99Ms: z.number().optional(),
  maxMs: z.number().optional(),
  /** each up to `upToMs` and above the one before; the last has no end */
  histogram: z.array(z.object({ upToMs: z.number().optional(), count: countSchema })),
});

export type Latency = z.output<typeof latencySchema>;

export type LatencyWire = z.input<typeof latencySchema>;

export const allowanceListSchema = z.object({
  /** of the newest subscriptions first; those without an allowance are left out */
  allowances: z.array(
    z.object({
      idHash: hash32Schema,
      subscriber: addressSchema,
      planId: hash32Schema,
      token: addressSchema,
      status: subscriptionSchema.shape.status,
      /** of one period */
      cap: amountSchema,
      spent: amountSchema,
      remaining: amountSchema,
      /** of the cap, rounded down; 100 when there is nothing left */
      usedPercent: z.number().int().min(0),
      /** ever */
      debits: countSchema,
      /** when the cap is whole again, if it is renewed */
      cycleEnds: timeSchema,
    }),
  ),
  /** pass as `cursor` for what follows; absent at the end */
  next: z.string().max(128).optional(),
});

export type AllowanceList = z.output<typeof allowanceListSchema>;

export type AllowanceListWire = z.input<typeof allowanceListSchema>;
