/** A scheme beside the built-in ones: one EIP-3009 transfer buys one request, and settles after the handler. */
import { PaymentPending, Unavailable } from "turnpike/protocol";
import type { X402RequestWire } from "../../../../../sdk/src/facilitator/x402";
import type { PaymentCase } from "../../../../../sdk/src/gate/core/payment-case";
import type { Purchase, Scheme } from "../../../../../sdk/src/gate/schemes/scheme";
import type { Hex } from "../../../../../sdk/src/protocol";

export interface ToyPurchase extends Purchase {
  readonly settlement: X402RequestWire;
}

/** Of a settlement whose outcome the Facilitator does not know: it is asked again. */
const UNKNOWN = new Set(["settlement_pending", "unexpected_settle_error"]);

const granting = (at: PaymentCase, { settlement }: ToyPurchase, id: Hex): X402RequestWire => ({
  ...settlement,
  grant: { id, resource: at.resource },
});

export const toyScheme: Scheme<ToyPurchase> = {
  async reserve(at, purchase, grantId) {
    const verdict = await at.context.facilitator.x402Verify(granting(at, purchase, grantId));
    if (!verdict.isValid) return { kind: "refused", reason: verdict.invalidReason };
    if (verdict.reserved) return { kind: "reserved", grantId };
    throw new Unavailable("The Facilitator reserves no payments.");
  },

  async settle(at, purchase, grantId) {
    const answer = await at.context.facilitator.x402Settle(granting(at, purchase, grantId));
    if (answer.success) return { kind: "settled", transaction: answer.transaction, grant: answer.grant };
    if (UNKNOWN.has(answer.errorReason)) throw new PaymentPending(answer.errorMessage);
    return { kind: "faulty", reason: answer.errorReason };
  },

  cancel: (at, { payment }, grantId) => at.context.facilitator.releasePayment(payment.paymentId, grantId),

  async isUnderWay(at, { payment }) {
    const found = await at.context.facilitator.payment(payment.paymentId);
    if (found.kind === "refused") throw new Unavailable(found.error.message, { cause: found.error });
    return found.value.status !== "unknown" && found.value.status !== "failed";
  },
};
