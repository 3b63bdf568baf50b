/** Signed payments in their wire form. */
import type { SignedPayment, SignedPaymentWire } from "turnpike/protocol";

export const paymentToWire = (payment: SignedPayment): SignedPaymentWire => ({
  ...payment,
  authorization: authorizationToWire(payment.authorization),
});
export const authorizationToWire = (authorization: SignedPayment["authorization"]) => ({
  ...authorization,
  value: String(authorization.value),
  validAfter: String(authorization.validAfter),
  validBefore: String(authorization.validBefore),
});
