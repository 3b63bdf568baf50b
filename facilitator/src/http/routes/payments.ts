/** One-time payments: authorize, status, proof verification. */
import {
  authorizeRequestSchema,
  authorizeResponseSchema,
  paymentStatusSchema,
  pendingSchema,
  verifyProofRequestSchema,
  verifyProofResponseSchema,
} from "turnpike/facilitator";
import { hash32Schema, proofToWire } from "turnpike/protocol";
import { z } from "zod";
import type { Doors } from "../app";
import { type Endpoint, endpoint } from "../endpoint";

export function paymentEndpoints({ payments, authorizeWaitMs }: Doors): Endpoint[] {
  return [
    endpoint({
      method: "post",
      path: "/authorize",
      tag: "payments",
      summary: "Have a signed transfer settled and get its proof. Safe to repeat.",
      body: authorizeRequestSchema,
      answers: { 200: authorizeResponseSchema, 202: pendingSchema },
      async handle({ body }) {
        const outcome = await payments.authorize(body.signedPayment, { waitMs: authorizeWaitMs });
        switch (outcome.kind) {
          case "settled":
            return { status: 200, body: { proof: proofToWire(outcome.proof) } };
          case "pending":
            return {
              status: 202,
              body: { status: "pending" as const, id: outcome.paymentId },
              headers: { "retry-after": String(outcome.retryAfterSec) },
            };
          case "failed":
          case "refused":
            throw outcome.error;
        }
      },
    }),
    endpoint({
      method: "get",
      path: "/payments/{id}",
      tag: "payments",
      summary: "What became of a payment. Anyone can compute the id, so neither proof, memo nor resource is told.",
      params: z.object({ id: hash32Schema }),
      answers: { 200: paymentStatusSchema },
      async handle({ params: { id } }) {
        const { status, transaction } = await payments.status(id);
        return { status: 200, body: { id, status, ...(transaction && { transaction }) } };
      },
    }),
    endpoint({
      method: "post",
      path: "/proofs/verify",
      tag: "payments",
      summary: "Whether this Facilitator signed a proof and its payment still stands.",
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
