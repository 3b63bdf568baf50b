/** One-time payments: authorize, status, proof verification. */
import {
  authorizeRequestSchema,
  authorizeResponseSchema,
  paymentStatusSchema,
  pendingSchema,
  releaseRequestSchema,
  releaseResponseSchema,
  verifyProofRequestSchema,
  verifyProofResponseSchema,
} from "turnpike/facilitator";
import { type Hex, hash32Schema, paymentIdOf, proofToWire, TurnpikeError } from "turnpike/protocol";
import { z } from "zod";
import type { RefundFacts } from "../../payments";
import { type Endpoint, endpoint } from "../endpoint";
import type { ApiServices } from "../services";

export function paymentEndpoints({ payments, authorizeWaitMs, untilDraining, network }: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "post",
      path: "/authorize",
      tag: "payments",
      summary: "Settle a signed transfer and return its proof. Safe to repeat.",
      body: authorizeRequestSchema,
      answers: { 200: authorizeResponseSchema, 202: pendingSchema },
      async handle({ body, waitedMs, concerns }) {
        const { signedPayment } = body;
        const { token, authorization } = signedPayment;
        const { from: payer, nonce } = authorization;
        const paymentId = paymentIdOf({ chainId: network.chainId, token, payer, nonce });
        concerns(paymentId);
        const waitMs = authorizeWaitMs - waitedMs;
        const outcome = await untilDraining(payments.authorize(signedPayment, { waitMs }));
        if (outcome === "draining") return pending(paymentId, 1);
        switch (outcome.kind) {
          case "settled":
            return { status: 200, body: { proof: proofToWire(outcome.proof) } };
          case "pending":
            return pending(outcome.paymentId, outcome.retryAfterSec);
          case "failed":
            throw outcome.error;
          case "refused":
            throw withLife(outcome.error, outcome.liveUntilSec);
        }
      },
    }),
    endpoint({
      method: "get",
      path: "/payments/{id}",
      tag: "payments",
      summary: "The status of a payment. Anyone can compute the id, so the response has no proof, memo or resource.",
      params: z.object({ id: hash32Schema }),
      answers: { 200: paymentStatusSchema },
      async handle({ params: { id }, concerns }) {
        concerns(id);
        const { status, transaction, refunds } = await payments.status(id);
        const refunded = refunds?.reduce((sum, { amount }) => sum + amount, 0n).toString();
        const shown = refunds?.map(refundToWire);
        return {
          status: 200,
          body: { id, status, ...(transaction && { transaction }), ...(shown && { refunded, refunds: shown }) },
        };
      },
    }),
    endpoint({
      method: "post",
      path: "/payments/{id}/release",
      tag: "payments",
      summary:
        "End the reservation that `/verify` made for a purchase. Safe to repeat; accepted payments do not change.",
      params: z.object({ id: hash32Schema }),
      body: releaseRequestSchema,
      answers: { 200: releaseResponseSchema },
      async handle({ params: { id }, body: { grantId }, concerns }) {
        concerns(id);
        return { status: 200, body: { released: await payments.releaseReservation(id, grantId) } };
      },
    }),
    endpoint({
      method: "post",
      path: "/proofs/verify",
      tag: "payments",
      summary: "Whether this Facilitator signed a proof and its payment is still settled.",
      body: verifyProofRequestSchema,
      answers: { 200: verifyProofResponseSchema },
      async handle({ body }) {
        const verdict = await payments.verifyProof(body.proof);
        return {
          status: 200,
          body: verdict.kind === "valid" ? { valid: true as const } : { valid: false as const, reason: verdict.reason },
        };
      },
    }),
  ];
}

export const pending = (id: Hex, retryAfterSec: number) => ({
  status: 202 as const,
  body: { status: "pending" as const, id },
  headers: { "retry-after": String(retryAfterSec) },
});

/** Until then the refused authorization can still move money: the payer must not consider it void before. */
export function withLife(error: TurnpikeError, liveUntilSec: number | undefined): TurnpikeError {
  if (liveUntilSec === undefined) return error;
  const { code, message, reason, retryAfterSec, details, cause } = error;
  return new TurnpikeError(code, message, {
    cause,
    ...(reason === undefined ? {} : { reason }),
    ...(retryAfterSec === undefined ? {} : { retryAfterSec }),
    details: { ...details, liveUntil: liveUntilSec },
  });
}

export const refundToWire = ({ amount, naming, ...refund }: RefundFacts) => ({
  ...refund,
  amount: amount.toString(),
  ...(naming && { naming: { ...naming, dailyCap: naming.dailyCap.toString() } }),
});
