/** Wraps a client of `@modelcontextprotocol/client` so that its tool calls are paid for by an agent. */
import type { CallToolRequestOptions, Client } from "@modelcontextprotocol/client";
import type { Agent } from "../../../agent/create-agent";
import { type CallPurchase, type McpPaymentOptions, payingClient, type SdkClient } from "../paying-client";

/** As the client's own options of a call, and what may be paid. */
export interface PaidCallOptions extends CallToolRequestOptions, CallPurchase {}

type CallTool = Client["callTool"];

/** A client whose `callTool` pays. */
export type PayingMcpClient<C extends Client> = Omit<C, "callTool"> & {
  /**
   * Calls a tool, and pays for it if the server asks and the policy allows it, at most once.
   * @returns the tool's result, never one that asks for payment; `receiptOf(result)` says what was paid
   * @throws PolicyRefused when nothing that is asked for may be paid; nothing was signed
   * @throws PaymentPending when the call timed out or its outcome is unknown; the next call presents the same payment
   * @throws AbortError when the signal aborts: `message` says whether anything was signed, and what to do
   * @throws what `Client.callTool` throws
   */
  callTool(params: Parameters<CallTool>[0], options?: PaidCallOptions): ReturnType<CallTool>;
};

/**
 * Wraps a client so that `callTool` uses the agent's subscriptions and pays within its policy. Everything else is the
 * client's own: `connect`, `listTools`, notifications.
 * @param client a connected client, or one to connect later
 * @throws ConfigError that names the option
 */
export function wrapMcpClientWithPayment<C extends Client>(
  client: C,
  agent: Agent,
  options: McpPaymentOptions,
): PayingMcpClient<C> {
  return payingClient(client as unknown as SdkClient, 2, { agent, options }) as PayingMcpClient<C>;
}
