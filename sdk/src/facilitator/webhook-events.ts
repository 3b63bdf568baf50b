/** Every event of webhooks and the feed, typed: the envelope, and for each type its object's full state. */
import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema, periodSchema, STATUSES } from "../protocol";
import { wrongKind } from "../protocol/arguments";
import { digestSchema } from "./digest";

const unixSec = z.number().int().nonnegative();

const index = z.number().int().nonnegative();

const payment = z.looseObject({
  paymentId: hash32Schema,
  /** its channel: the project's own, or the standard one */
  door: z.enum(["authorize", "settle"]),
  token: addressSchema,
  payer: addressSchema,
  payTo: addressSchema,
  amount: amountSchema,
  /** origin and path of what was bought, never the query */
  resource: z.string(),
  status: z.enum(["pending", "settled", "failed", "reversed"]),
  transaction: hash32Schema.nullable(),
  blockNumber: z.number().int().nullable(),
  /** block time, unix seconds */
  settledAt: unixSec.nullable(),
  /** code of the error, when it failed */
  reason: z.string().optional(),
});

/** A transfer back to the payer of a payment, a debit or a charge. */
const refund = z.looseObject({
  refundId: hash32Schema,
  /** the paymentId, or the id of the debit or charge */
  refundedId: hash32Schema,
  kind: z.enum(["payment", "debit", "charge"]),
  /** of a debit or charge; absent for a payment */
  planId: hash32Schema.optional(),
  /** of a debit or charge: the subscription's name when it was collected; absent for a payment */
  idHash: hash32Schema.optional(),
  /** counts the refunds of one id, from 0 */
  index,
  /** base units that were paid in all */
  paid: amountSchema,
  /** base units of it that are refunded by now */
  refunded: amountSchema,
  /** who refunds: the payee, or the provider */
  account: addressSchema,
  /** who is refunded */
  payer: addressSchema,
  token: addressSchema,
  amount: amountSchema,
  status: z.enum(["pending", "settled", "failed", "reversed"]),
  transaction: hash32Schema.nullable(),
  blockNumber: z.number().int().nullable(),
  /** block time, unix seconds */
  settledAt: unixSec.nullable(),
  /** code of the error, when it failed */
  reason: z.string().optional(),
});

const plan = z.looseObject({
  planId: hash32Schema,
  provider: addressSchema,
  token: addressSchema,
  amount: amountSchema,
  /** seconds; of a period in months a nominal length, 30 days for each month */
  interval: z.number().int().positive(),
  period: periodSchema,
  grace: unixSec,
  payTo: addressSchema,
  /** another payee that is proposed, and from when on (unix seconds) anyone can apply it; null: none */
  proposedPayTo: z.looseObject({ payTo: addressSchema, effectiveAt: unixSec }).nullable(),
  metadata: z.string(),
  deprecated: z.boolean(),
  /** events of earlier releases leave it out */
  stopped: z.boolean().default(false),
  successor: hash32Schema.nullable(),
});

/** The allowance is null where no cap was ever set. */
const subscription = z.looseObject({
  idHash: hash32Schema,
  subscriber: addressSchema,
  planId: hash32Schema,
  provider: addressSchema.nullable(),
  token: addressSchema.nullable(),
  price: amountSchema.nullable(),
  status: z.enum(STATUSES),
  /** unix seconds, exclusive */
  paidThrough: unixSec,
  version: z.number().int(),
  ending: z.boolean(),
  /** the paid period was begun with a voucher; events of earlier releases leave it out */
  intro: z.boolean().default(false),
  /** unix seconds, from when on nothing is charged but debits of the paid period; null: no end is set */
  until: unixSec.nullable(),
  /** the plan of the next charged period; null: the same */
  nextPlanId: hash32Schema.nullable(),
  allowance: z
    .looseObject({ cap: amountSchema, spent: amountSchema, remaining: amountSchema, debits: index })
    .nullable(),
});

/** base units collected by this act */
const charged = { charged: amountSchema.nullable() };

const chargedPeriod = subscription.extend({
  ...charged,
  /** true for the first charge at a plan's price after a signup by voucher */
  converted: z.boolean().optional(),
});

/** base units that the renewal collects: at a scheduled change the new plan's price */
const charge = { charge: amountSchema };

const debit = subscription.extend({ amount: amountSchema, index });

/** Once a day; only to endpoints whose types name it. */
export const DIGEST_TYPE = "digest.daily";

/** What each type's `data` holds: the object's state after the event, and what only this event knows. */
export const WEBHOOK_DATA = {
  "payment.settled": payment,
  "payment.failed": payment,
  "payment.reversed": payment.extend({ reversedTransaction: hash32Schema.nullable() }),
  "payment.restored": payment,
  "refund.settled": refund,
  "refund.failed": refund,
  "refund.reversed": refund.extend({ reversedTransaction: hash32Schema.nullable() }),
  "refund.restored": refund,
  "plan.created": plan,
  "plan.deprecated": plan,
  "plan.stopped": plan,
  /** `by` is the account that proposed or withdrew it */
  "plan.payee_proposed": plan.extend({ by: addressSchema }),
  "plan.payee_changed": plan.extend({ previousPayTo: addressSchema }),
  /** for both providers, each by its own event */
  "plan.transferred": plan.extend({ previousProvider: addressSchema }),
  "subscription.created": subscription.extend(charged),
  "subscription.renewed": chargedPeriod,
  "subscription.renewal_at_risk": subscription.extend({
    ...charge,
    /** of this renewal, unix seconds */
    dueAt: unixSec,
    /** how long before it the event is sent, seconds */
    horizonSec: z.number().int().positive(),
    /** renewals of this subscriber, with this token, that fall due within the horizon, and what they need together */
    renewals: z.number().int().positive(),
    required: amountSchema,
    balance: amountSchema,
    approval: amountSchema,
    missingFunds: amountSchema,
    missingApproval: amountSchema,
  }),
  "subscription.renewal_failed": subscription.extend({
    ...charge,
    /** code of the error */
    reason: z.string(),
    /** counts from 1 within the period */
    attempt: z.number().int().positive(),
    nextAttemptAt: unixSec,
  }),
  "subscription.past_due": subscription.extend(charge),
  "subscription.paused": subscription,
  "subscription.resumed": chargedPeriod,
  "subscription.plan_changed": chargedPeriod,
  "subscription.next_set": subscription,
  "subscription.rekeyed": subscription.extend({ previousIdHash: hash32Schema }),
  "subscription.cancelled": subscription.extend({ atPeriodEnd: z.boolean() }),
  "subscription.expired": subscription.extend(charge),
  "allowance.debited": debit,
  "allowance.threshold_reached": debit,
  "allowance.exhausted": debit,
  "allowance.cap_changed": subscription,
  [DIGEST_TYPE]: digestSchema,
} as const;

/** The type of an event. */
export type WebhookEventType = keyof typeof WEBHOOK_DATA;

/** Every type of event that is sent. */
export const WEBHOOK_EVENT_TYPES = Object.keys(WEBHOOK_DATA) as WebhookEventType[];

/** Sent on request, to see that an endpoint works. No subscription to types leaves it out. */
export const TEST_EVENT_TYPE = "webhook.test";

/** Returns whether a type is one of {@link WEBHOOK_EVENT_TYPES}. */
export function isWebhookEventType(type: string): type is WebhookEventType {
  return typeof type === "string" && Object.hasOwn(WEBHOOK_DATA, type);
}

const envelope = {
  /** a hash of chain facts: the same for every attempt, and after the database was rebuilt */
  id: hash32Schema,
  /** unix seconds of the block, or of the clock where time alone brought it about */
  occurredAt: unixSec,
  network: z.string().max(64),
  chainId: z.number().int().positive(),
  /** the object it is about: a paymentId, refundId, idHash or planId; of digests one hash for each provider and chain */
  subject: hash32Schema,
  /** counts the events of one object, from 1: of two states the one with the higher number is the newer */
  sequence: z.number().int().nonnegative(),
  /** absent for what the mere passing of time brought about */
  transaction: hash32Schema.optional(),
};

export const webhookEnvelopeSchema = z.looseObject({
  type: z.string().max(64),
  ...envelope,
  data: z.record(z.string(), z.unknown()),
});

/** The body of one type of webhook. */
export const webhookEventSchemaOf = <T extends WebhookEventType>(type: T) => {
  if (!isWebhookEventType(type)) throw wrongKind(type, "type", "one of WEBHOOK_EVENT_TYPES");
  return z.object({ type: z.literal(type), ...envelope, data: WEBHOOK_DATA[type] });
};

interface Envelope<T extends string, D> {
  readonly type: T;
  readonly id: z.output<typeof hash32Schema>;
  readonly occurredAt: number;
  readonly network: string;
  readonly chainId: number;
  readonly subject: z.output<typeof hash32Schema>;
  readonly sequence: number;
  readonly transaction?: z.output<typeof hash32Schema> | undefined;
  readonly data: D;
}

/**
 * What arrives, by `type`; amounts are bigint. `webhook.test` says that the endpoint works; `unknown` is any type
 * that this version does not know, whose name is `name`.
 */
export type WebhookEvent =
  | { readonly [T in WebhookEventType]: Envelope<T, z.output<(typeof WEBHOOK_DATA)[T]>> }[WebhookEventType]
  | Envelope<typeof TEST_EVENT_TYPE, Record<string, unknown>>
  | (Envelope<"unknown", Record<string, unknown>> & { readonly name: string });
