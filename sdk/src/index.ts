/** Turnpike for providers and agents. `paymentGate` here is Express and node middleware; `turnpike/gate/*` has others. */
export * from "./gate";
export { paymentGate } from "./gate/express";
export type { PaymentProof, PaymentRequired, PaymentRequiredWire, SubscriptionStatus } from "./protocol";
export * from "./protocol/errors";
