/** Refunds: settles a transfer that the payee or provider has signed back to the payer, and lists what was settled. */
import { pendingSchema, refundListSchema, refundRequestSchema, refundResponseSchema } from "turnpike/facilitator";
import { hash32Schema, paymentIdOf } from "turnpike/protocol";
import * as z from "zod";
import { type Endpoint, endpoint } from "../endpoint";
import type { ApiServices } from "../services";
import { pending, withLife } from "./payments";

export function refundEndpoints({ payments, authorizeWaitMs, untilDraining, network }: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "post",
      path: "/refunds",
      tag: "payments",
      summary: "Settle a signed refund of a payment, a debit or a charge. Safe to repeat.",
      body: refundRequestSchema,
      answers: { 200: refundResponseSchema, 202: pendingSchema },
      async handle({ body }) {
        const outcome = await untilDraining(payments.refund(body, { waitMs: authorizeWaitMs }));
        if (outcome === "draining") {
          const { from: payer, nonce } = body.authorization;
          return pending(paymentIdOf({ chainId: network.chainId, token: body.token, payer, nonce }), 1);
        }
        switch (outcome.kind) {
          case "settled": {
            const { kind: _settled, ...facts } = outcome;
            return { status: 200, body: facts };
          }
          case "pending":
            return pending(outcome.refundId, outcome.retryAfterSec);
          case "failed":
            throw outcome.error;
          case "refused":
            throw withLife(outcome.error, outcome.liveUntilSec);
        }
      },
    }),
    endpoint({
      method: "get",
      path: "/refunds/{id}",
      tag: "payments",
      summary: "The settled refunds of a payment, a debit or a charge, by the id that they are counted under.",
      params: z.object({ id: hash32Schema }),
      answers: { 200: refundListSchema },
      async handle({ params: { id } }) {
        const refunds = await payments.refunds(id);
        return {
          status: 200,
          body: { id, refunds: refunds.map(({ amount, ...refund }) => ({ ...refund, amount: amount.toString() })) },
        };
      },
    }),
  ];
}
