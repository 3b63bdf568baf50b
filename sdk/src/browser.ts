/** `turnpike` in a page, where bundlers resolve it to this: the agent, the errors and the types of the wire. No gate. */

export type { AgentOptions } from "./agent/core/agent-options";
export type { Agent } from "./agent/create-agent";
export { createAgent } from "./agent/create-agent";
export { memoryLedger } from "./agent/ledger/ledger-store";
export { walletFromKey } from "./agent/signing/wallet";
export { wrapFetchWithPayment } from "./agent/wrap-fetch";
export * from "./protocol/errors";
export type { SubscriptionStatus } from "./protocol/periods";
export type { PaymentProof, PaymentRequired, PaymentRequiredWire } from "./protocol/schemas";
