/** A scheme beside the built-in ones: one EIP-3009 transfer buys one request, and settles after the handler. */
import { isGrantSigned, keccakText, PaymentPending, Unavailable } from "turnpike/protocol";
import type { X402RequestWire } from "../../../../../sdk/src/facilitator/payments";
import type { PaymentCase } from "../../../../../sdk/src/gate/core/payment-case";
import { grantIdsOf, type Purchase, type Scheme, type Settlement } from "../../../../../sdk/src/gate/schemes/scheme";
import type { Hex } from "../../../../../sdk/src/protocol";

export interface ToyPurchase extends Purchase {
  readonly settlement: X402RequestWire;
}

/** Of a settlement whose outcome the Facilitator does not know: it is asked again. */
const UNKNOWN = new Set(["settlement_pending", "unexpected_settle_error"]);

const TAKEN = "payment_already_granted";

const granting = (at: PaymentCase, { settlement }: ToyPurchase, id: Hex): X402RequestWire => ({
  ...settlement,
  grant: { id, resource: at.resource },
});

export const toyScheme: Scheme<ToyPurchase> = {
  async reserve(at, purchase) {
    let reason = TAKEN;
    for (const grantId of await grantIdsOf(at, purchase)) {
      const verdict = await at.context.facilitator.x402Verify(granting(at, purchase, grantId));
      if (verdict.isValid && verdict.reserved) return { kind: "reserved", grantId };
      if (verdict.isValid) throw new Unavailable("The Facilitator reserves no payments.");
      reason = verdict.invalidReason;
      if (reason !== TAKEN) break;
    }
    return (await toyScheme.isUnderWay(at, purchase)) ? { kind: "under_way" } : { kind: "refused", reason };
  },

  async settle(at, purchase) {
    let settlement: Settlement = { kind: "faulty", reason: TAKEN };
    for (const grantId of await grantIdsOf(at, purchase)) {
      settlement = await settleFor(at, purchase, grantId);
      if (settlement.kind === "settled" || settlement.reason !== TAKEN) break;
    }
    return settlement;
  },

  cancel: (at, { payment }, grantId) => at.context.facilitator.releasePayment(payment.paymentId, grantId),

  async isUnderWay(at, { payment }) {
    const found = await at.context.facilitator.payment(payment.paymentId);
    if (found.kind === "refused") throw new Unavailable(found.error.message, { cause: found.error });
    return found.value.status !== "unknown" && found.value.status !== "failed";
  },
};

async function settleFor(at: PaymentCase, purchase: ToyPurchase, grantId: Hex): Promise<Settlement> {
  const answer = await at.context.facilitator.x402Settle(granting(at, purchase, grantId));
  if (!answer.success && UNKNOWN.has(answer.errorReason)) throw new PaymentPending(answer.errorMessage);
  if (!answer.success) return { kind: "faulty", reason: answer.errorReason };
  const { settings, time } = at.context;
  const { token, payTo, amount, paymentId } = purchase.payment;
  const transaction = answer.transaction as Hex;
  const facts = { token, payTo, amount, paymentId, transaction, grantId, chainId: settings.network.chainId };
  const { facilitator, signature } = answer.grant ?? {};
  const isGranted =
    facilitator !== undefined &&
    signature !== undefined &&
    settings.facilitator?.signers.isTrustedSigner(facilitator, time.nowSec()) === true &&
    isGrantSigned({ ...facts, resourceHash: keccakText(at.resource), facilitator }, signature);
  if (!isGranted) throw new Unavailable("No pinned signer has granted the settled payment to this purchase.");
  return { kind: "settled", transaction };
}
