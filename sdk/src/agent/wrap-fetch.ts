/** The name under which stock x402 packages offer a paying fetch; the agent's own `fetch` does the work. */
import { ConfigError } from "../protocol";
import type { AgentOptions } from "./core/agent-options";
import type { RequestInput } from "./core/request";
import { type Agent, createAgent } from "./create-agent";
import type { PayInit } from "./payments/pay";

/**
 * Wraps `fetch` so that it pays for what asks for payment, within a policy.
 * @param payer an agent, or the options of a new one with its wallet and policy; a wallet alone has no limits
 * @param further none: those of the stock function are refused, with what replaces them
 * @throws ConfigError for a wallet alone, and for an agent that sends its requests by another `fetch` than the given one
 */
export function wrapFetchWithPayment(
  fetch: typeof globalThis.fetch,
  payer: Agent | Omit<AgentOptions, "fetch">,
  ...further: readonly undefined[]
): (input: RequestInput, init?: PayInit) => Promise<Response> {
  if (typeof fetch !== "function") throw new ConfigError("wrapFetchWithPayment takes a fetch function first");
  requireNone(further);
  const agent = agentOf(fetch, payer);
  return (input, init) => agent.fetch(input, init);
}

/** From the third on, as stock packages name them. */
const STOCK_ARGUMENTS: readonly (readonly [name: string, remedy: string])[] = [
  ["maxValue", "set policy.perPayment"],
  ["paymentRequirementsSelector", "set policy.prefer"],
  ["config", "set rpc of the options"],
];

/** @throws ConfigError: an ignored limit would let more be paid than its caller allows */
function requireNone(further: readonly unknown[]): void {
  const place = further.findIndex((value) => value !== undefined);
  if (place < 0) return;
  const [name, remedy] = STOCK_ARGUMENTS[place] ?? ["", "remove it"];
  throw new ConfigError(
    `wrapFetchWithPayment: argument ${place + 3}${name && ` (stock: ${name})`} has no effect: ${remedy}`,
  );
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
