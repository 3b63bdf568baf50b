/**
 * Turnpike for providers and agents, on Node. `paymentGate` here is Express and node middleware; `turnpike/gate/*` has
 * others. An agent that runs in a browser imports `turnpike/agent`, which carries neither the gate nor a chain library.
 */

export type { AgentOptions } from "./agent/core/agent-options";
export type { Agent } from "./agent/create-agent";
export { createAgent } from "./agent/create-agent";
export { memoryLedger } from "./agent/ledger/ledger-store";
export { walletFromKey } from "./agent/signing/wallet";
export { wrapFetchWithPayment } from "./agent/wrap-fetch";
export * from "./gate";
export { paymentGate } from "./gate/express";
export * from "./protocol/errors";
export type { SubscriptionStatus } from "./protocol/periods";
export type { PaymentProof, PaymentRequired, PaymentRequiredWire } from "./protocol/schemas";
