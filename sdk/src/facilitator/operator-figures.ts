/**
 * Wire bodies of what only the operator of a Facilitator sees: all providers together, and what the service has cost.
 */
import * as z from "zod";
import { addressSchema, amountSchema } from "../protocol";
import { overviewSchema } from "./analytics";

const countSchema = z.number().int();

const timeSchema = z.number().int().nonnegative();

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
