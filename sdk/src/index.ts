/**
 * Turnpike for providers and agents, on Node. `paymentGate` here is Express and node middleware; `turnpike/gate/*` has
 * others. An agent that runs in a browser imports `turnpike/agent`, which carries neither the gate nor a chain library.
 */

export { type Agent, type AgentOptions, createAgent, memoryLedger, walletFromKey } from "./agent";
export * from "./gate";
export { paymentGate } from "./gate/express";
export type { PaymentProof, PaymentRequired, PaymentRequiredWire, SubscriptionStatus } from "./protocol";
export * from "./protocol/errors";
