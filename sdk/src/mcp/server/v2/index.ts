/** Sells tools of the Model Context Protocol on `@modelcontextprotocol/server`, in revision 2026-07-28 and before. */
export type { FreePayment, OneTimePayment, Payment, SubscriptionPayment } from "../../../gate/core/payment";
export type { PricingEntry } from "../../../gate/core/pricing";
export type { PaidTool } from "../sell-tool";
export {
  type PaidToolContext,
  type PaidToolHandler,
  type PaidToolOptions,
  paidTool,
  type ToolArguments,
  type ToolCallRequest,
} from "./paid-tool";
