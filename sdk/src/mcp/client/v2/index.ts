/** The buyer's side of paid tools on `@modelcontextprotocol/client`, in revision 2026-07-28 and before. */
export { receiptOf } from "../../../agent/payments/receipt";
export type { ToolSubscriptions } from "../buy-call";
export type { McpPaymentOptions } from "../paying-client";
export { type PaidCallOptions, type PayingMcpClient, wrapMcpClientWithPayment } from "./wrap-mcp-client";
