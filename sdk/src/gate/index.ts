/** The provider's side: gates, operations, stores. Framework adapters have entry points of their own. */
export { ConfigError, type Money, parsePaymentProof } from "../protocol";
export type { OpenTelemetryApi } from "../protocol/tracing";
export type { Decision } from "./core/answer";
export type { GateOptions } from "./core/gate-options";
export type {
  FacilitatorSetting,
  OfferReceiptOptions,
  OfferReceiptSigner,
  PaymentTarget,
  PinnedSigner,
  ProviderOptions,
  TokenOption,
  VerifyMode,
} from "./core/options";
export type { FreePayment, OneTimePayment, Payment, SubscriptionPayment } from "./core/payment";
export type { AcceptOption, Cost, MaximumCost, PricingEntry } from "./core/pricing";
export type { Gate } from "./decision/gate";
export type { OpenApiDocument } from "./discovery/document";
export type { OpenApiHandler } from "./discovery/serve";
export type { Deduction } from "./metering/charges";
export type { MeterPort } from "./metering/meter";
export type { MeterEvent, MeterStore, UnsettledReport, UnsettledSubscription } from "./metering/store";
export type {
  DeductUsage,
  UnitPrice,
  UnitPriceOption,
  Usage,
  UsageMeter,
  UsageMeterOptions,
} from "./metering/usage-meter";
export { gated, type NodeGate, type PaidRequest, paymentGate, preflight } from "./node";
export {
  buildPaymentRequired,
  close,
  configure,
  context,
  createProvider,
  type DefaultGateOptions,
  deductAllowance,
  openApi,
  type Provider,
  verifyPaymentProof,
} from "./provider/provider";
export type { AnyRequest } from "./provider/verify";
export {
  applyClaim,
  type ClaimAct,
  type ClaimOutcome,
  type ClaimRecord,
  type ClaimStore,
  type FactsOfPayment,
  isHeldAfter,
  type KeptUntil,
  MAX_RELEASES,
  noteFact,
  outcomeFor,
  type PurchaseFacts,
  pinNameOf,
  type ServedClaim,
  type StoredAnswer,
  servedOf,
} from "./purchases/record";
export { fileClaims, memoryClaims } from "./purchases/store";
export type { ReplayOptions } from "./replay/keeper";
export {
  type MeterStreamOptions,
  meterStream,
  type PartStreamOptions,
  type TokenStreamOptions,
} from "./usage/meter-stream";
export type { TokenMeterOptions, TokenPrices } from "./usage/token-meter";
export { anthropicUsage, openAiUsage, type TokenUsage, type UsageReader } from "./usage/token-usage";
