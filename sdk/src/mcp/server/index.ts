/** Sells tools of the Model Context Protocol, on the official SDK: one-time, by subscription, metered, or up to a maximum. */
export type { FreePayment, OneTimePayment, Payment, SubscriptionPayment } from "../../gate/core/payment";
export type { PricingEntry } from "../../gate/core/pricing";
export {
  type PaidToolExtra,
  type PaidToolHandler,
  type PaidToolOptions,
  paidTool,
  type ToolArguments,
  type ToolCallRequest,
  type ToolSchema,
} from "./paid-tool";
export type { PaidTool } from "./sell-tool";
