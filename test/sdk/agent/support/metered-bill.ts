/** A gate that signs usage receipts, over the real contracts, and an agent that subscribes to its plan. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { ethers, network } from "hardhat";
import {
  type Agent,
  type AgentEvent,
  type Audit,
  memoryReceipts,
  type Subscription,
  verifyAudit,
} from "turnpike/agent";
import { createProvider, meterStream, openAiUsage, type Payment, type Provider, paymentGate } from "turnpike/gate";
import type { Hex } from "turnpike/protocol";
import { closeServer, listen } from "../../../support/gate";
import { startRpc } from "./hardhat-rpc";
import { INTERVAL_SEC, PRICE, type Relay, relayBeforeEach } from "./relay";
import type { StandIn } from "./servers";
import { addressOf, agentFor, CHAIN_ID, NETWORK, testKey } from "./world";

export const CAP = 5_000_000n;

export const EVENTS = ['data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', "data: [DONE]\n\n"];

export interface MeteredSeller {
  readonly relay: Relay;
  readonly rpc: StandIn;
  readonly provider: Provider;
  /**
   * charges 1,000 base units for a page, 700 for `/stream`; `/crash` charges for a page and never answers, `/moved`
   * charges for one and leads to another
   */
  readonly url: string;
  /** Accepts these plans alone. */
  accept(...plans: readonly Hex[]): void;
  /** Debits what no receipt says. */
  overcharge(amount: bigint, idHash: Hex): Promise<void>;
  verify(text: string): ReturnType<typeof verifyAudit>;
  stop(): Promise<void>;
}

export async function startMeteredSeller(relay: Relay, planId: Hex): Promise<MeteredSeller> {
  const rpc = await startRpc();
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-audit-"));
  const [, owner] = await ethers.getSigners();
  const plans = relay.turnpike.connect(owner ?? null);
  await plans.setOperator(planId, addressOf("receipts"), 4);
  await plans.setOperator(planId, addressOf("operator"), 1);
  await owner?.sendTransaction({ to: addressOf("operator"), value: 10n ** 18n });
  const provider = createProvider({
    network: NETWORK,
    rpcUrl: rpc.url,
    turnpike: relay.addresses.turnpike,
    pollMs: 20,
    token: { address: relay.addresses.token, name: "Test USD", version: "1" },
    payTo: addressOf("treasury"),
    secret: "a secret that is long enough for a test",
    claims: "memory",
    facilitator: { url: relay.url, signers: [addressOf("facilitator")] },
    operatorKey: testKey("operator"),
    receiptKey: testKey("receipts"),
    meterFolder: folder,
  });
  const gateOf = (...accepted: readonly Hex[]) =>
    paymentGate({ provider, pricing: accepted.map((plan) => ({ type: "subscription", plan })), metered: true });
  let gate = gateOf(planId);
  const server = createServer((request, response) => {
    void gate(request, response, async (error) => {
      if (error !== undefined) return void response.writeHead(500).end(String(error));
      await answer(request.url ?? "", (request as unknown as { payment: Payment }).payment, response);
    });
  });
  const url = await listen(server);
  await provider.ready();
  return {
    relay,
    rpc,
    provider,
    url,
    accept(...accepted) {
      gate = gateOf(...accepted);
    },
    async overcharge(amount, idHash) {
      const debits = await relay.turnpike.queryFilter(relay.turnpike.filters.Debited(idHash));
      await plans.debit(idHash, amount, debits.length);
    },
    verify: (text) => verifyAudit(text, { rpc: rpc.url, turnpike: relay.addresses.turnpike }),
    async stop() {
      await provider.close();
      await closeServer(server);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function answer(target: string, payment: Payment, response: ServerResponse): Promise<void> {
  if (target === "/stream") {
    const body = new Response(EVENTS.join(""), { headers: { "content-type": "text/event-stream" } });
    const metered = await meterStream(body, { payment, prices: { input: 1n, output: 700n }, read: openAiUsage() });
    response.writeHead(200, { "content-type": "text/event-stream" });
    for await (const part of metered.body as unknown as AsyncIterable<Uint8Array>) response.write(part);
    return void response.end();
  }
  await payment.deduct(1_000n, { unit: "page", units: 2, unitPrice: 500n });
  // The charge is durable; its answer never leaves.
  if (target === "/crash") return void response.destroy();
  if (target === "/moved") return void response.writeHead(307, { location: "/page?moved" }).end();
  response.end("served");
}

/** Logs as JSON-RPC has them. */
export type ChangeLogs = (logs: readonly { readonly topics: readonly string[] }[]) => readonly object[];

/** Answers `eth_getLogs` with other logs. */
export function lyingFetch(change: () => ChangeLogs | undefined): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const logs = change();
    if (!logs || !String(init?.body).includes("eth_getLogs")) return response;
    const { result, ...rest } = (await response.json()) as { result: Parameters<ChangeLogs>[0] };
    return Response.json({ ...rest, result: logs(result) });
  };
}

export interface MeteredBill extends MeteredSeller {
  readonly planId: Hex;
  readonly agent: Agent;
  readonly events: readonly AgentEvent[];
  readonly subscription: Subscription;
  /** what happens to the next answers of the gate on their way to the agent */
  readonly spoil: ((response: Response) => Response)[];
  /** what the agent's RPC makes of the logs that it returns */
  readonly lie: { logs?: ChangeLogs | undefined };
  /** Buys one answer. */
  call(target?: string): Promise<string>;
  nextCycle(): Promise<void>;
}

/** Call it in a `describe`. Each test gets a chain, a seller and a subscriber of its own. */
export function meteredBillBeforeEach(use: (fresh: MeteredBill) => void): void {
  let relay: Relay;
  let planId: Hex;
  let seller: MeteredSeller;
  let agent: Agent;
  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });
  beforeEach(async () => {
    seller = await startMeteredSeller(relay, planId);
    const { rpc, url } = seller;
    const spoil: ((response: Response) => Response)[] = [];
    const events: AgentEvent[] = [];
    const lie: MeteredBill["lie"] = {};
    const lying = lyingFetch(() => lie.logs);
    const spoiling = async (input: RequestInfo | URL, init?: RequestInit) => {
      const response = await lying(input, init);
      const next = String(input).startsWith(url) ? spoil.shift() : undefined;
      return next ? next(response) : response;
    };
    ({ agent } = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      rpc: rpc.url,
      fetch: spoiling as typeof fetch,
      onEvent: (event: AgentEvent) => void events.push(event),
      receipts: memoryReceipts(),
    }));
    const subscription = await agent.subscribe({ planId, maxOverage: CAP, origins: [url] });
    use({
      ...seller,
      planId,
      agent,
      events,
      subscription,
      spoil,
      lie,
      call: async (target = "/page") => (await agent.fetch(`${url}${target}`)).text(),
      async nextCycle() {
        await network.provider.send("evm_increaseTime", [INTERVAL_SEC]);
        await network.provider.send("evm_mine", []);
        await relay.turnpike.renew(subscription.idHash);
      },
    });
  });
  afterEach(async () => {
    await agent.close();
    await seller.stop();
  });
}

export const findingsOf = ({ subscriptions }: Audit) => subscriptions.flatMap(({ findings }) => findings);

export const kindsOf = (audit: Audit) => findingsOf(audit).map(({ kind }) => kind);
