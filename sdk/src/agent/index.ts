/** The client side: an agent that pays for requests and subscribes, within a policy, at most once. */

export type { CancelOptions, ChangePlanOptions, ResumeOptions } from "./changes";
export type { KnownToken } from "./context";
export { type Agent, type AgentOptions, createAgent } from "./create-agent";
export { type AgentLimits, DEFAULT_LIMITS, type Sleep } from "./effects";
export type { AgentEvent } from "./events";
export type { FacilitatorOption } from "./facilitators";
export type { Fraction } from "./fraction";
export { type Ledger, type LedgerRecord, memoryLedger } from "./ledger";
export type { SubscribeOptions } from "./offer";
export type { PayInit } from "./pay";
export type { PaymentView } from "./payments";
export type { TopUp } from "./permits";
export type { AgentPolicy, Amount, AskReason, SpendIntent } from "./policy";
export type {
  ExpectedUse,
  MeteredPrice,
  OneTimePrice,
  PriceOption,
  PriceQuote,
  QuoteInit,
  SubscriptionPrice,
} from "./price-quote";
export { type PaidResponse, type PaymentReceipt, receiptOf } from "./receipt";
export type { RecoverOptions } from "./recover";
export type { RequestInput } from "./request";
export type { Subscription, SubscriptionRef } from "./subscription";
export type { TopUpOptions } from "./top-up";
export { type AgentWallet, type EthersLikeWallet, type ViemLikeWallet, walletFromKey } from "./wallet";
