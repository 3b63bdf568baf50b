import * as z from "zod";
import {
  addressSchema,
  amountSchema,
  authorizationSchema,
  hash32Schema,
  type RefundTarget,
  signatureSchema,
} from "../protocol";
import { refundNamingSchema } from "./refund-accounts";

/** Refunds of one payment, debit or charge are numbered from 0; more would cost more to submit than to merge. */
export const MAX_REFUNDS = 1_000;

const unixSec = z.number().int().nonnegative();

export const refundTargetSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("payment"), paymentId: hash32Schema }),
  z.object({ type: z.literal("debit"), idHash: hash32Schema, index: z.number().int().nonnegative() }),
  z.object({
    type: z.literal("charge"),
    idHash: hash32Schema,
    /** both as they are right after the charge */
    version: z.number().int().nonnegative().max(65_535),
    paidThrough: unixSec,
  }),
]) satisfies z.ZodType<RefundTarget>;

/** The nonce of `authorization` is the refund's: see `refundNonce`. Its signature is all that authorizes a refund. */
export const refundRequestSchema = z.object({
  network: z.string().min(1).max(64),
  token: addressSchema,
  target: refundTargetSchema,
  index: z
    .number()
    .int()
    .nonnegative()
    .max(MAX_REFUNDS - 1),
  authorization: authorizationSchema,
  signature: signatureSchema,
});

export type RefundRequestWire = z.input<typeof refundRequestSchema>;

export const refundResponseSchema = z.object({
  /** of this refund: the subject of its events */
  refundId: hash32Schema,
  /** of what it refunds */
  refundedId: hash32Schema,
  transaction: hash32Schema,
  blockNumber: z.number().int().nonnegative(),
  /** block time, unix seconds */
  settledAt: unixSec,
});

export type SettledRefund = z.output<typeof refundResponseSchema>;

/** One settled refund of a payment, a debit or a charge: the chain's evidence of it is in `transaction`. */
export const refundFactsSchema = z.object({
  index: z.number().int().nonnegative(),
  /** the account that paid it */
  account: addressSchema,
  amount: amountSchema,
  transaction: hash32Schema,
  /** of an automatic refund: the payee's signed statement that names the account */
  naming: refundNamingSchema.optional(),
});

/** The settled refunds of what `id` names, by index. */
export const refundListSchema = z.object({ id: hash32Schema, refunds: z.array(refundFactsSchema) });

export type RefundList = z.output<typeof refundListSchema>;
