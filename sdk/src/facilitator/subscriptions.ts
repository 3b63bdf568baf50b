/**
 * Wire bodies of plans, and of subscriptions: a signed signup, signed changes, permits, the record, and the charge of a
 * plan change. A plan has every term that goes into its planId, so that a reader can recompute it instead of trusting the
 * answer.
 */
import * as z from "zod";
import {
  addressSchema,
  amountSchema,
  hash32Schema,
  LONGEST_FIRST_INTERVAL_SEC,
  periodSchema,
  permitSignatureSchema,
  STATUSES,
  signatureSchema,
} from "../protocol";

export const planSchema = z.object({
  planId: hash32Schema,
  network: z.string().min(1).max(64),
  chainId: z.number().int().positive(),
  turnpike: addressSchema,
  provider: addressSchema,
  token: addressSchema,
  /** price of one period, base units */
  amount: amountSchema,
  /** seconds; of a period in months a nominal length, 30 days for each month */
  interval: z.number().int().positive(),
  /** what counts: seconds, or calendar months (UTC) */
  period: periodSchema,
  /** seconds */
  grace: z.number().int().nonnegative(),
  /** receives every charge and debit now */
  payTo: addressSchema,
  /** provider and payee at creation, which the planId proves: both can move later */
  firstProvider: addressSchema,
  firstPayTo: addressSchema,
  /** another payee that is proposed, and from when on (unix seconds) anyone can apply it */
  proposedPayTo: z.object({ payTo: addressSchema, effectiveAt: z.number().int().positive() }).optional(),
  salt: hash32Schema,
  /** the text as it was emitted, byte for byte */
  metadata: z.string().max(16_384),
  deprecated: z.boolean(),
  /** it charges nothing any more, and its subscriptions end with the period that is paid */
  stopped: z.boolean(),
  /** the plan its provider points to instead */
  successor: hash32Schema.optional(),
});

export type Plan = z.output<typeof planSchema>;

export type PlanWire = z.input<typeof planSchema>;

export const planListSchema = z.object({
  plans: z.array(planSchema).max(200),
  /** pass as `cursor` for what follows; absent at the end */
  next: z.string().max(128).optional(),
});

export type PlanList = z.output<typeof planListSchema>;

const unixSecSchema = z.number().int().nonnegative();

const networkSchema = z.string().min(1).max(64);

/** of the subscription; every change that the subscriber makes raises it by one */
const versionSchema = z.number().int().min(0).max(65_535);

/** An EIP-2612 permit with Turnpike as spender. It *sets* the approval. */
export const permitSchema = z.object({
  value: amountSchema,
  /** unix seconds, inclusive */
  deadline: amountSchema,
  /** 65 bytes r, s, v; any other length for tokens whose permit takes bytes, as contract wallets sign */
  signature: permitSignatureSchema,
});

export type PermitFields = z.output<typeof permitSchema>;

/** A provider's offer of another first period, to one subscriber for one secret: the EIP-712 `Voucher`. */
export const voucherSchema = z.object({
  /** an account with the VOUCHER right on the plan */
  signer: addressSchema,
  /** charged at signup, base units, at most the plan's price */
  firstAmount: amountSchema,
  /** seconds, at most 366 days; 0: one regular period */
  firstInterval: z.number().int().min(0).max(LONGEST_FIRST_INTERVAL_SEC),
  /** unix seconds, inclusive */
  deadline: amountSchema,
  signature: signatureSchema,
});

export type Voucher = z.output<typeof voucherSchema>;

export type VoucherWire = z.input<typeof voucherSchema>;

/** unix seconds, in 40 bits; 0: none */
const untilSchema = z.number().int().min(0).max(1_099_511_627_775);

/** Signup: the EIP-712 `Subscribe` that the subscriber signed. The secret itself is never sent. */
export const subscribeRequestSchema = z.object({
  network: networkSchema.optional(),
  subscriber: addressSchema,
  planId: hash32Schema,
  /** keccak256 of the secret half of `subscription.id` */
  secretHash: hash32Schema,
  /** cap of metered overage per cycle, base units; "0": none */
  maxOverage: amountSchema,
  /** from when on nothing is charged but debits of the paid period; absent or 0: no end */
  until: untilSchema.optional(),
  voucher: voucherSchema.optional(),
  /** unix seconds, inclusive */
  deadline: amountSchema,
  signature: signatureSchema,
  permit: permitSchema.optional(),
});

export type SubscribeRequest = z.output<typeof subscribeRequestSchema>;

export type SubscribeRequestWire = z.input<typeof subscribeRequestSchema>;

/** The EIP-712 `Void`: a signup that was signed for this secret is worth nothing from then on. */
export const voidRequestSchema = z.object({
  network: networkSchema.optional(),
  subscriber: addressSchema,
  secretHash: hash32Schema,
  /** unix seconds, inclusive */
  deadline: amountSchema,
  signature: signatureSchema,
});

export type VoidRequest = z.output<typeof voidRequestSchema>;

export type VoidRequestWire = z.input<typeof voidRequestSchema>;

export const subscriptionStatusSchema = z.enum(STATUSES);

/** What a signup or a change led to, once its transaction is confirmed. */
export const changeResponseSchema = z.object({
  idHash: hash32Schema,
  status: subscriptionStatusSchema,
  transaction: hash32Schema,
  paidThrough: unixSecSchema,
  version: versionSchema,
  /** of a rekey only: the record's new key, which the fields above describe */
  previousIdHash: hash32Schema.optional(),
});

export type SubscriptionChange = z.output<typeof changeResponseSchema>;

export type SubscriptionChangeWire = z.input<typeof changeResponseSchema>;

const changeBase = {
  version: versionSchema,
  /** unix seconds, inclusive */
  deadline: amountSchema,
  signature: signatureSchema,
  permit: permitSchema.optional(),
};

/** The terms of the plan of a `SetNext`, as they are signed. */
const nextTermsSchema = z.object({
  token: addressSchema,
  /** the present payee */
  payTo: addressSchema,
  /** base units */
  amount: amountSchema,
  /** in the unit */
  interval: z.number().int().positive().max(4_294_967_295),
  unit: z.enum(["seconds", "months"]),
});

export type NextTermsWire = z.input<typeof nextTermsSchema>;

/** The body of `POST /subscriptions/{idHash}/<act>`, by act. Each is the signed struct's fields beside idHash. */
export const CHANGE_REQUESTS = {
  pause: z.object(changeBase),
  resume: z.object({ ...changeBase, maxCharge: amountSchema }),
  cancel: z.object({ ...changeBase, atPeriodEnd: z.boolean() }),
  "max-overage": z.object({ ...changeBase, cap: amountSchema }),
  next: z.object({
    ...changeBase,
    until: untilSchema,
    /** all zero: no change is scheduled */
    nextPlanId: hash32Schema,
    /** the next plan's, as they are signed; absent: no plan */
    terms: nextTermsSchema.optional(),
  }),
  plan: z.object({ ...changeBase, newPlanId: hash32Schema, maxOverage: amountSchema, maxCharge: amountSchema }),
  rekey: z.object({ ...changeBase, newSecretHash: hash32Schema }),
} as const;

/** A change of a subscription, as the path names it. */
export type ChangeAct = keyof typeof CHANGE_REQUESTS;

/** All of them. */
export const CHANGE_ACTS = Object.keys(CHANGE_REQUESTS) as readonly ChangeAct[];

/** The body of one kind of change as it is read: amounts are `bigint`. */
export type ChangeRequest<A extends ChangeAct = ChangeAct> = z.output<(typeof CHANGE_REQUESTS)[A]>;

/** The same on the wire: amounts are decimal strings. */
export type ChangeRequestWire<A extends ChangeAct = ChangeAct> = z.input<(typeof CHANGE_REQUESTS)[A]>;

export const subscriptionSchema = z.object({
  idHash: hash32Schema,
  network: networkSchema,
  chainId: z.number().int().positive(),
  subscriber: addressSchema,
  planId: hash32Schema,
  status: subscriptionStatusSchema,
  /** unix seconds: exclusive end of the paid period */
  paidThrough: unixSecSchema,
  version: versionSchema,
  /** cancelled at the period's end */
  ending: z.boolean(),
  /** the paid period was begun with a voucher: it gives no credit; absent: it was not */
  intro: z.boolean().default(false),
  /** the day of the month on which periods start; absent on a plan in seconds */
  anchorDay: z.number().int().min(1).max(31).optional(),
  /** unix seconds, from when on nothing is charged but debits of the paid period; absent: no end is set */
  until: unixSecSchema.optional(),
  /** the plan of the next charged period; absent: the same */
  nextPlanId: hash32Schema.optional(),
  allowance: z.object({
    /** base units per cycle */
    cap: amountSchema,
    spent: amountSchema,
    remaining: amountSchema,
    /** the next debit's index */
    debits: z.number().int().nonnegative(),
  }),
  /** where a rekeyed record went */
  rekeyedTo: hash32Schema.optional(),
  /** head block's time at which all this was true, unix seconds */
  chainTimeSec: unixSecSchema,
});

export type Subscription = z.output<typeof subscriptionSchema>;

export type SubscriptionWire = z.input<typeof subscriptionSchema>;

/** A wallet's subscriptions, the newest first; `more`: there are older ones. */
export const subscriptionListSchema = z.object({
  subscriptions: z.array(subscriptionSchema),
  more: z.boolean(),
  /** pass as `cursor` for the older ones */
  next: z.string().max(80).optional(),
});

export type SubscriptionList = z.output<typeof subscriptionListSchema>;

export type SubscriptionListWire = z.input<typeof subscriptionListSchema>;

/** What changing to `newPlanId` would charge now. */
export const changeQuoteSchema = z.object({
  idHash: hash32Schema,
  newPlanId: hash32Schema,
  charge: amountSchema,
  /** for the unused time, already subtracted from the charge */
  credit: amountSchema,
  chainTimeSec: unixSecSchema,
});

export type ChangeQuote = z.output<typeof changeQuoteSchema>;

/** `POST /permits`: the relayer gives the permit to the token. */
export const permitRequestSchema = z.object({
  network: networkSchema.optional(),
  token: addressSchema,
  owner: addressSchema,
  ...permitSchema.shape,
});

export type PermitRequest = z.output<typeof permitRequestSchema>;

export type PermitRequestWire = z.input<typeof permitRequestSchema>;

export const permitResponseSchema = z.object({
  token: addressSchema,
  owner: addressSchema,
  /** the current approval of Turnpike */
  approval: amountSchema,
  /** absent when the permit had been submitted before */
  transaction: hash32Schema.optional(),
});

export type PermitResult = z.output<typeof permitResponseSchema>;

/** `GET /accounts/{address}?token=`: what an agent without an RPC needs before it signs. */
export const accountSchema = z.object({
  address: addressSchema,
  network: networkSchema,
  chainId: z.number().int().positive(),
  token: addressSchema,
  /** of the token's EIP-712 domain */
  tokenName: z.string().max(128),
  tokenVersion: z.string().max(32),
  balance: amountSchema,
  /** the token approval given to Turnpike, or to the spender that was asked about */
  approval: amountSchema,
  /** the next EIP-2612 nonce; absent when the token has no permits */
  permitNonce: amountSchema.optional(),
  chainTimeSec: unixSecSchema,
});

export type Account = z.output<typeof accountSchema>;

export type AccountWire = z.input<typeof accountSchema>;
