/** The client side: an agent that pays for requests and subscribes, within a policy, at most once. */
export type { OpenTelemetryApi } from "../protocol/tracing";
export type { AgentOptions } from "./core/agent-options";
export type { KnownToken } from "./core/context";
export type { AgentEvent, AgentLimits, Sleep } from "./core/effects";
export { DEFAULT_LIMITS } from "./core/effects";
export type { FacilitatorOption } from "./core/facilitators";
export type { AgentPolicy, Amount, AskReason, Preference, SpendIntent } from "./core/policy-options";
export type { RequestInput } from "./core/request";
export type { Agent } from "./create-agent";
export { createAgent } from "./create-agent";
export type {
  JudgedOffer,
  JudgedReceipt,
  KeptReceipt,
  ReceiptFault,
  ReceiptStore,
  StatementFault,
} from "./ledger/evidence";
export { memoryReceipts } from "./ledger/evidence";
export type { Ledger, LedgerRecord } from "./ledger/ledger-store";
export { memoryLedger } from "./ledger/ledger-store";
export type { PayInit } from "./payments/pay";
export type { PaidResponse, PaymentReceipt } from "./payments/receipt";
export { receiptOf } from "./payments/receipt";
export type { Credited } from "./payments/refunds";
export type { BudgetView, ChargeView, PaymentView } from "./payments/view";
export type { FoundRoute, FoundRoutes } from "./pricing/find-routes";
export type {
  MeteredPrice,
  OneTimePrice,
  PriceOption,
  PriceQuote,
  SubscriptionPrice,
} from "./pricing/price-quote";
export type { Audit, AuditOptions, VerifiedAudit, VerifyAuditOptions } from "./receipts/audit";
export { verifyAudit } from "./receipts/audit";
export type { AuditedCycle, AuditedSubscription, CycleName, Finding, HeldReceipt } from "./receipts/bill";
export { describeFinding } from "./receipts/bill";
export type {
  AgentWallet,
  Eip1193Provider,
  EthersLikeWallet,
  ViemLikeWallet,
  ViemLikeWalletClient,
} from "./signing/wallet";
export { walletFromKey } from "./signing/wallet";
export type { ChangePlanOptions } from "./subscriptions/change-plan";
export type { CancelOptions, ResumeOptions } from "./subscriptions/changes";
export type { SubscribeOptions, VoucherRequest } from "./subscriptions/offers";
export type { TopUp, TopUpOptions } from "./subscriptions/permits";
export type { RecoverOptions } from "./subscriptions/recover";
export type { Subscription, SubscriptionRef } from "./subscriptions/subscription";
export { wrapFetchWithPayment } from "./wrap-fetch";
