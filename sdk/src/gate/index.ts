/** The provider's side: gates, operations, stores. Framework adapters stand behind doors of their own. */
export { ConfigError } from "../protocol";
export { fileClaims } from "./claims/file";
export { memoryClaims } from "./claims/memory";
export * from "./claims/rules";
export type { Decision } from "./decide";
export { close, configure, type DefaultGateOptions } from "./default-provider";
export type { Gate } from "./gate";
export type { MeterPort } from "./meter-port";
export { gated, type NodeGate, type PaidRequest, paymentGate } from "./node";
export * from "./operations";
export type { ProviderOptions, VerifyMode } from "./options";
export type { Deduction, FreePayment, OneTimePayment, Payment, SubscriptionPayment } from "./payment";
export type { PricingEntry } from "./pricing";
export { createProvider, type Provider } from "./provider";
export type { GateOptions } from "./route";
export type { AnyRequest } from "./verify";
