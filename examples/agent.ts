/** An agent: buys one answer, subscribes to a plan, and calls a metered route until it is done. */
import { type Agent, createAgent, type PaidResponse, walletFromKey } from "turnpike/agent";

export interface ExampleAgentOptions {
  /** of an account that holds tokens; it needs no gas */
  readonly key: `0x${string}`;
  readonly facilitator: string;
  readonly chainId: number;
  readonly turnpike: `0x${string}`;
  readonly token: `0x${string}`;
  /** the agent's own node: its time and nonces take precedence over the Facilitator's */
  readonly rpc?: string;
  /** used for every HTTP call; default the global fetch */
  readonly fetch?: typeof fetch;
}

/** Creates an agent that spends at most 1 token unit at once, 100 a day and 50 per period of a subscription. */
export function exampleAgent({ key, facilitator, chainId, turnpike, token, rpc, fetch }: ExampleAgentOptions): Agent {
  return createAgent({
    wallet: walletFromKey(key),
    policy: { perPayment: 1_000_000, perDay: 100_000_000, perSubscription: 50_000_000, tokens: [token] },
    facilitators: [facilitator],
    deployments: [{ chainId, turnpike }],
    ...(rpc ? { rpc } : {}),
    ...(fetch ? { fetch } : {}),
  });
}

/** One call: the 402, the signature, the settlement and the retry happen inside. */
export async function buyQuote(agent: Agent, provider: string, symbol: string): Promise<PaidResponse> {
  return agent.pay(`${provider}/quote?symbol=${encodeURIComponent(symbol)}`);
}

/** One signature pays the first period and allows every further one to be collected without the agent. */
export async function readReport(agent: Agent, provider: string, planId: `0x${string}`): Promise<Response> {
  await agent.subscribe({ planId, origins: [provider] });
  return agent.fetch(`${provider}/report`);
}

/** Calls a metered route; the answer is 402 once the cap of the cycle is reached. */
export async function complete(agent: Agent, provider: string, words: number): Promise<Response> {
  return agent.fetch(`${provider}/complete`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ words }),
  });
}
