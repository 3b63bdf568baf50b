/** One-time payments: authorize, status, proof verification. */
import { PAYMENT_ENDPOINTS } from "turnpike/facilitator";
import { type Hex, paymentIdOf, proofToWire, TurnpikeError } from "turnpike/protocol";
import type { RefundFacts } from "../../payments";
import { type Endpoint, ok, routes } from "../endpoint";
import type { ApiServices } from "../services";

export function paymentEndpoints(services: ApiServices): Endpoint[] {
  const { payments, authorizeWaitMs, untilDraining, network } = services;
  return routes(services, PAYMENT_ENDPOINTS, {
    async authorizePayment({ body, waitedMs, concerns }) {
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
          return ok({ proof: proofToWire(outcome.proof) });
        case "pending":
          return pending(outcome.paymentId, outcome.retryAfterSec);
        case "failed":
          throw outcome.error;
        case "refused":
          throw withLife(outcome.error, outcome.liveUntilSec);
      }
    },
    async getPayment({ params: { id }, concerns }) {
      concerns(id);
      const { status, transaction, refunds } = await payments.status(id);
      const refunded = refunds?.reduce((sum, { amount }) => sum + amount, 0n).toString();
      const shown = refunds?.map(refundToWire);
      return {
        status: 200,
        body: { id, status, ...(transaction && { transaction }), ...(shown && { refunded, refunds: shown }) },
      };
    },
    async releasePayment({ params: { id }, body: { grantId }, concerns }) {
      concerns(id);
      return ok({ released: await payments.releaseReservation(id, grantId) });
    },
    async verifyProof({ body }) {
      const verdict = await payments.verifyProof(body.proof);
      return {
        status: 200,
        body: verdict.kind === "valid" ? { valid: true as const } : { valid: false as const, reason: verdict.reason },
      };
    },
  });
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
