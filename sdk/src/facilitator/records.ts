/**
 * Wire bodies of what a provider finds and reads: the story of one payment or charge, search results, and the ledger.
 * Amounts are base units, times unix seconds.
 */
import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema } from "../protocol";
import { SCHEMES } from "./analytics";
import { MOVEMENT_KINDS, movementAmounts, totalsSchema } from "./digest";
import { refundTargetSchema } from "./refunds";
import { deliverySchema } from "./webhook-endpoints";

const countSchema = z.number().int();

const timeSchema = z.number().int().nonnegative();

const statusSchema = z.enum(["pending", "settled", "failed", "reversed"]);

const storyFields = {
  id: hash32Schema,
  token: addressSchema,
  payer: addressSchema,
  amount: amountSchema,
  transaction: hash32Schema.optional(),
  blockNumber: z.number().int().optional(),
  /** base units of settled refunds */
  refunded: amountSchema,
  /** by index, in any state */
  refunds: z.array(
    z.object({
      refundId: hash32Schema,
      index: z.number().int(),
      account: addressSchema,
      amount: amountSchema,
      status: statusSchema,
      acceptedAt: timeSchema,
      settledAt: timeSchema.optional(),
      transaction: hash32Schema.optional(),
      reason: z.string().optional(),
    }),
  ),
  /** of its events, oldest first; absent for a key without the scope `webhooks` */
  deliveries: z.array(deliverySchema.extend({ endpoint: z.string(), url: z.string() })).optional(),
};

export const paymentStorySchema = z.object({
  ...storyFields,
  payTo: addressSchema,
  status: statusSchema,
  /**
   * queued: in no transaction. sent: in one that is not mined. parked: mined and not moved; it may move until
   * `validBefore`. waived: settled at 0.
   */
  stage: z.enum(["queued", "sent", "parked", "settled", "failed", "waived"]),
  /** its channel: the project's own, or the standard one */
  door: z.enum(["authorize", "settle"]),
  /** how the money moves: see `transferMethods` of `GET /supported` */
  method: z.string(),
  /** of the scheme `upto`: the maximum that was signed */
  permitted: amountSchema.optional(),
  resource: z.string().max(2_048),
  /** text of the payer's or the gate's choice */
  memo: z.string().max(256).optional(),
  nonce: hash32Schema,
  validAfter: timeSchema,
  validBefore: timeSchema,
  /** by the service's clock */
  acceptedAt: timeSchema,
  /** transactions that it was in */
  attempts: countSchema,
  settledAt: timeSchema.optional(),
  /** when an x402 payment was granted to its purchase */
  grantedAt: timeSchema.optional(),
  /** code of the error, when it failed */
  reason: z.string().optional(),
  /** the reason beside the code */
  detail: z.string().optional(),
});

export type PaymentStory = z.output<typeof paymentStorySchema>;

export type PaymentStoryWire = z.input<typeof paymentStorySchema>;

export const chargeStorySchema = z.object({
  ...storyFields,
  scheme: z.enum(SCHEMES),
  at: timeSchema,
  planId: hash32Schema,
  /** the subscription's public name */
  idHash: hash32Schema,
  /** its block was given up by the chain */
  reverted: z.boolean(),
  /** how a refund of it names it */
  target: refundTargetSchema,
});

export type ChargeStory = z.output<typeof chargeStorySchema>;

export type ChargeStoryWire = z.input<typeof chargeStorySchema>;

/** What a search finds. */
export const HIT_KINDS = ["payment", "refund", "charge", "subscription", "payer", "plan", "endpoint"] as const;

export const searchSchema = z.object({
  /** at most 20 */
  hits: z.array(
    z.object({
      kind: z.enum(HIT_KINDS),
      id: z.string().max(66),
      /** a plan's metadata, an endpoint's description, a payment's resource: text of somebody's choice */
      text: z.string().optional(),
      amount: amountSchema.optional(),
      token: addressSchema.optional(),
      /** the page of the dashboard that shows it */
      page: z.string(),
    }),
  ),
});

export type Search = z.output<typeof searchSchema>;

export type SearchWire = z.input<typeof searchSchema>;

export const movementSchema = z.object({
  at: timeSchema,
  /** of the payment, the charge or the refund */
  id: hash32Schema,
  kind: z.enum(MOVEMENT_KINDS),
  ...movementAmounts,
  token: addressSchema,
  payer: addressSchema,
  planId: hash32Schema.optional(),
  /** origin and path of what was bought, never the query */
  route: z.string().optional(),
  memo: z.string().optional(),
  transaction: hash32Schema.optional(),
  /** of a refund: what it refunds; of a charge: the subscription's public name */
  subject: hash32Schema.optional(),
});

/** One movement of a provider's money. */
export type Movement = z.output<typeof movementSchema>;

export const ledgerSchema = z.object({
  /** inclusive */
  from: timeSchema,
  /** exclusive */
  to: timeSchema,
  /** of all movements that the filter lets through, by token and kind */
  totals: totalsSchema,
  movements: z.array(movementSchema),
  /** pass as `cursor` for what follows; absent at the end */
  next: z.string().max(160).optional(),
});

export type Ledger = z.output<typeof ledgerSchema>;

export type LedgerWire = z.input<typeof ledgerSchema>;
