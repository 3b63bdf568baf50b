/** The buyer's side of paid tools: wraps an MCP client so that an agent pays for its calls, within a policy, at most once. */
export { receiptOf } from "../../agent/payments/receipt";
export type { ToolSubscriptions } from "./buy-call";
export type { McpPaymentOptions } from "./paying-client";
export { type PaidCallOptions, type PayingMcpClient, wrapMcpClientWithPayment } from "./wrap-mcp-client";
