/** The name under which stock x402 packages offer a paying fetch; the agent's own `fetch` does the work. */
import { ConfigError } from "../protocol";
import type { AgentOptions } from "./core/agent-options";
import type { RequestInput } from "./core/request";
import { type Agent, createAgent } from "./create-agent";
import type { PayInit } from "./payments/pay";

/**
 * Wraps `fetch` so that it pays for what asks for payment, within a policy.
 * @param payer an agent, or the options of a new one with its wallet and policy; a wallet alone has no limits
 * @throws ConfigError for a wallet alone, and for an agent that sends its requests by another `fetch` than the given one
 */
export function wrapFetchWithPayment(
  fetch: typeof globalThis.fetch,
  payer: Agent | Omit<AgentOptions, "fetch">,
): (input: RequestInput, init?: PayInit) => Promise<Response> {
  if (typeof fetch !== "function") throw new ConfigError("wrapFetchWithPayment takes a fetch function first");
  const agent = agentOf(fetch, payer);
  return (input, init) => agent.fetch(input, init);
}

function agentOf(fetch: typeof globalThis.fetch, payer: Agent | Omit<AgentOptions, "fetch">): Agent {
  if (typeof payer === "object" && payer !== null) {
    if ("pay" in payer && "subscribe" in payer) {
      if (fetch === globalThis.fetch) return payer;
      throw new ConfigError("an agent has a fetch of its own: give this one to createAgent({ fetch }), and wrap that");
    }
    if ("wallet" in payer && "policy" in payer) return createAgent({ ...payer, fetch });
  }
  throw new ConfigError(
    "wrapFetchWithPayment takes an agent, or { wallet, policy, facilitators }: a wallet alone would pay without limits",
  );
}
