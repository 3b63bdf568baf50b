/** Wire bodies of one-time payments in the project's own interface: authorize, status, proof verification. */
import * as z from "zod";
import { amountSchema, hash32Schema, paymentProofSchema, signedPaymentSchema } from "../protocol";
import { refundFactsSchema } from "./refunds";

export const authorizeRequestSchema = z.object({ signedPayment: signedPaymentSchema });

export type AuthorizeRequest = z.output<typeof authorizeRequestSchema>;

export const authorizeResponseSchema = z.object({ proof: paymentProofSchema });

/** HTTP 202: the outcome is not known yet. The same request, posted again, is safe and gets it. */
export const pendingSchema = z.object({
  status: z.literal("pending"),
  /** paymentId, idHash or the request's own id: what the answer will be about */
  id: hash32Schema,
});

export type PendingWire = z.input<typeof pendingSchema>;

/**
 * `failed`: can never move money. `reversed`: was settled in a block that the chain gave up. `unknown`: never seen
 * here.
 */
export const PAYMENT_STATUSES = ["pending", "settled", "failed", "reversed", "unknown"] as const;

export const paymentStatusSchema = z.object({
  id: hash32Schema,
  status: z.enum(PAYMENT_STATUSES),
  transaction: hash32Schema.optional(),
  /** base units of all settled refunds; absent: none */
  refunded: amountSchema.optional(),
  /** by index */
  refunds: z.array(refundFactsSchema).optional(),
});

export type PaymentStatus = z.output<typeof paymentStatusSchema>;

export const verifyProofRequestSchema = z.object({ proof: paymentProofSchema });

/** A negative is an answer (HTTP 200); an outage is a 503, never `valid: false`. */
export const verifyProofResponseSchema = z.discriminatedUnion("valid", [
  z.object({ valid: z.literal(true) }),
  z.object({ valid: z.literal(false), reason: z.string().max(128) }),
]);

export type ProofVerdict = z.output<typeof verifyProofResponseSchema>;
