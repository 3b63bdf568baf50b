/**
 * Wire bodies of figures: what a provider's dashboard draws and lists, and what only the operator of a Facilitator
 * sees, which is all providers together and what the service has cost. Amounts are base units, times unix seconds.
 */
import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema, periodSchema } from "../protocol";
import { refundTargetSchema } from "./refunds";
import { subscriptionSchema } from "./subscriptions";

/** The channel of a payment. */
export const SCHEMES = ["one-time", "signup", "renewal", "resume", "plan-change", "overage"] as const;

/** What a payment was for. */
export type Scheme = (typeof SCHEMES)[number];

const countSchema = z.number().int();

const timeSchema = z.number().int().nonnegative();

const sumSchema = z.object({ count: countSchema, amount: amountSchema });

/** base units; negative when more was refunded than received */
const netSchema = z.string().regex(/^-?\d{1,78}$/);

/** Refunds beside what was received. */
const netOfRefunds = {
  count: countSchema,
  /** received; refunds are not subtracted */
  amount: amountSchema,
  /** settled refunds */
  refunds: sumSchema,
  /** `amount` without `refunds` */
  net: netSchema,
};

/** pass as `cursor` for what follows; absent at the end */
const nextSchema = z.string().max(128).optional();

const byScheme = z.partialRecord(z.enum(SCHEMES), sumSchema);

export const overviewSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  /** inclusive */
  from: timeSchema,
  /** exclusive */
  to: timeSchema,
  /** start of the first day of which anything is known; absent before anything happened */
  since: timeSchema.optional(),
  volume: sumSchema,
  /** of the range of the same length before; a whole one only where `since` is not within it */
  volumeBefore: sumSchema,
  /** settled in the range, of payments of any day; not in `volume` */
  refunds: sumSchema,
  /** `volume` without `refunds` */
  net: netSchema,
  byScheme,
  subscriptions: z.object({
    /** served now */
    active: countSchema,
    /** what the active ones pay in 30 days, rounded down per plan */
    recurring: amountSchema,
    created: countSchema,
    cancelled: countSchema,
    expired: countSchema,
    /** subscriptions that were cancelled or expired in the range and did not come back in it */
    ended: countSchema,
    /** signups by voucher in the range, and first charges at a plan's price after such a signup */
    trials: z.object({ begun: countSchema, converted: countSchema }),
  }),
  /** plans with another payee that is proposed, the first to apply first; at most 20 */
  payeeProposals: z.array(z.object({ planId: hash32Schema, payTo: addressSchema, effectiveAt: timeSchema })).max(20),
  renewals: z.object({
    renewed: countSchema,
    /** periods that ended without one, grace included */
    pastDue: countSchema,
    /** attempts that failed; several may precede one renewal */
    failedAttempts: countSchema,
  }),
  payments: z.object({ settled: countSchema, failed: countSchema, reversed: countSchema }),
  /**
   * what a one-time payment has cost this service on average in the range, by final transactions; absent without any
   */
  settlementCost: z
    .object({
      gasPerPayment: z.number().int().nonnegative(),
      weiPerPayment: amountSchema,
      /** hundredths of a token, where the price of the chain's coin is set */
      centsPerPayment: z.number().nonnegative().optional(),
    })
    .optional(),
});

export type Overview = z.output<typeof overviewSchema>;

export type OverviewWire = z.input<typeof overviewSchema>;

export const volumeSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  grain: z.enum(["hour", "day"]),
  from: timeSchema,
  to: timeSchema,
  /** in the order of time; hours and days without payments are left out */
  points: z.array(z.object({ at: timeSchema, scheme: z.enum(SCHEMES), count: countSchema, amount: amountSchema })),
});

export type Volume = z.output<typeof volumeSchema>;

export type VolumeWire = z.input<typeof volumeSchema>;

export const planFiguresSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  from: timeSchema,
  to: timeSchema,
  plans: z.array(
    z.object({
      planId: hash32Schema,
      metadata: z.string().max(16_384),
      /** of one period */
      price: amountSchema,
      /** seconds; of a period in months a nominal length, 30 days for each month */
      interval: z.number().int().positive(),
      period: periodSchema,
      /** receives every charge and debit now */
      payTo: addressSchema,
      /** another payee that is proposed, and from when on (unix seconds) anyone can apply it */
      proposedPayTo: z.object({ payTo: addressSchema, effectiveAt: timeSchema }).optional(),
      deprecated: z.boolean(),
      /** it charges nothing any more, and its subscriptions end with the period that is paid */
      stopped: z.boolean(),
      /** the present provider of a plan that was transferred after it was charged; absent for the provider's own plans */
      transferredTo: addressSchema.optional(),
      active: countSchema,
      recurring: amountSchema,
      ...netOfRefunds,
      byScheme,
    }),
  ),
  next: nextSchema,
});

export type PlanFigures = z.output<typeof planFiguresSchema>;

export type PlanFiguresWire = z.input<typeof planFiguresSchema>;

export const payerFiguresSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  payers: z.array(z.object({ payer: addressSchema, ...netOfRefunds })),
  /** of all payers, listed or not; absent where one payer was asked for */
  total: z.object(netOfRefunds).optional(),
  next: nextSchema,
});

export type PayerFigures = z.output<typeof payerFiguresSchema>;

export type PayerFiguresWire = z.input<typeof payerFiguresSchema>;

export const chargeListSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  payer: addressSchema,
  /** newest first */
  charges: z.array(
    z.object({
      /** of its event; absent from earlier releases */
      id: hash32Schema.optional(),
      at: timeSchema,
      scheme: z.enum(SCHEMES),
      token: addressSchema,
      amount: amountSchema,
      /** the payment's id, or the subscription's public name */
      subject: hash32Schema,
      transaction: hash32Schema.optional(),
      /** how a refund of it names it */
      target: refundTargetSchema,
      /** base units of its settled refunds; absent: none */
      refunded: amountSchema.optional(),
    }),
  ),
  next: nextSchema,
});

export type ChargeList = z.output<typeof chargeListSchema>;

export type ChargeListWire = z.input<typeof chargeListSchema>;

export const paymentListSchema = z.object({
  payments: z.array(
    z.object({
      id: hash32Schema,
      token: addressSchema,
      payer: addressSchema,
      amount: amountSchema,
      /** origin and path of what was bought, never the query */
      resource: z.string().max(2_048),
      status: z.enum(["pending", "settled", "failed", "reversed"]),
      acceptedAt: timeSchema,
      settledAt: timeSchema.optional(),
      transaction: hash32Schema.optional(),
      reason: z.string().max(64).optional(),
      /** base units of its settled refunds; absent: none */
      refunded: amountSchema.optional(),
    }),
  ),
  next: nextSchema,
});

export type PaymentList = z.output<typeof paymentListSchema>;

export type PaymentListWire = z.input<typeof paymentListSchema>;

export const subscriberListSchema = z.object({
  /** newest first */
  subscriptions: z.array(subscriptionSchema.extend({ createdAt: timeSchema, token: addressSchema })),
  next: nextSchema,
});

export type SubscriberList = z.output<typeof subscriberListSchema>;

export type SubscriberListWire = z.input<typeof subscriberListSchema>;

export const operatorOverviewSchema = overviewSchema.extend({
  /** that were paid in the range */
  providers: countSchema,
});

export type OperatorOverview = z.output<typeof operatorOverviewSchema>;

export type OperatorOverviewWire = z.input<typeof operatorOverviewSchema>;

export const providerFiguresSchema = z.object({
  token: addressSchema,
  decimals: z.number().int().min(0).max(77),
  from: timeSchema,
  to: timeSchema,
  /** highest volume first */
  providers: z.array(z.object({ provider: addressSchema, count: countSchema, amount: amountSchema })),
});

export type ProviderFigures = z.output<typeof providerFiguresSchema>;

export type ProviderFiguresWire = z.input<typeof providerFiguresSchema>;

const costSchema = z.object({
  /** e.g. settle, renew, debit, or the name of a signed act */
  purpose: z.string(),
  transactions: countSchema,
  /** payments, signups, renewals and debits that moved money in them */
  items: countSchema,
  gas: amountSchema,
  wei: amountSchema,
  /** hundredths of a token for each item, where NATIVE_PRICE is set and there are items */
  centsPerItem: z.number().optional(),
});

export const costsSchema = z.object({
  from: timeSchema,
  to: timeSchema,
  /** of the chain's coin, in whole tokens */
  nativePrice: z.number().optional(),
  purposes: z.array(
    costSchema.extend({
      /** of the transactions, reverted */
      failed: countSchema,
      gasPerItem: z.number().int().optional(),
      weiPerItem: amountSchema.optional(),
    }),
  ),
  /** by day */
  points: z.array(costSchema.extend({ at: timeSchema })),
});

export type ServiceCosts = z.output<typeof costsSchema>;

export type ServiceCostsWire = z.input<typeof costsSchema>;
