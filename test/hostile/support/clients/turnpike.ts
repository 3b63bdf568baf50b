/** This project's agent under the battery: with short waits, so that a run is fast. */
import { type Agent, createAgent, type Ledger, memoryLedger, walletFromKey } from "turnpike/agent";
import { addressOfKey, idHashOf, keccakText, secretHashOf } from "turnpike/protocol";
import type { HostileClient, PayOptions } from "../play";

const ledgers = new Map<string, Ledger>();

/** Every run has its own Facilitator, so that it and the session together name what the agent remembers. */
async function agentOf(options: PayOptions): Promise<Agent> {
  const name = `${options.facilitators[0]}:${options.session}`;
  const ledger = ledgers.get(name) ?? memoryLedger();
  if (!ledgers.has(name)) {
    ledgers.set(name, ledger);
    if (options.subscription) await ledger.append(subscriptionOf(options));
  }
  const { perPayment, perDay, payees, maxWindowSec } = options.limits;
  return createAgent({
    wallet: walletFromKey(options.privateKey),
    policy: { perPayment, perDay, payees, maxWindowSec, tokens: [options.token], networks: [options.network] },
    facilitators: options.facilitators,
    ledger,
    limits: {
      settleMs: 6_000,
      presentations: 3,
      inFlightMs: 500,
      freshMs: 500,
      requestTimeoutMs: 5_000,
      facilitatorTimeoutMs: 5_000,
      quoteTimeoutMs: 500,
    },
    sleep: async (_ms, signal) => {
      signal?.throwIfAborted();
      await new Promise((resolve) => setImmediate(resolve));
    },
  });
}

const SECRET = keccakText("turnpike hostile test secret");

function subscriptionOf({ subscription, facilitators, privateKey, ...options }: PayOptions) {
  const subscriber = addressOfKey(privateKey);
  const somebody = addressOfKey(keccakText("turnpike hostile test key: provider"));
  const planId = subscription?.planId ?? "0x";
  return {
    type: "subscription" as const,
    id: idHashOf(subscriber, secretHashOf(SECRET)),
    state: "live" as const,
    subscriber,
    planId,
    provider: somebody,
    payTo: somebody,
    turnpike: somebody,
    token: subscriber,
    chainId: options.chainId,
    network: options.network,
    facilitator: facilitators[0] ?? "",
    amount: "1",
    intervalSec: 60,
    months: 0,
    graceSec: 0,
    cap: "0",
    periods: 12,
    origins: [subscription?.origin ?? ""],
    secret: { from: "ledger" as const, value: SECRET },
  };
}

export const name = "turnpike/agent";
export const features: HostileClient["features"] = ["subscription"];

export async function pay(url: string, options: PayOptions): Promise<Response> {
  const agent = await agentOf(options);
  const { idempotencyKey, signal, subscription } = options;
  const init = { ...(idempotencyKey ? { idempotencyKey } : {}), ...(signal ? { signal } : {}) };
  return subscription ? agent.fetch(url, init) : agent.pay(url, init);
}
