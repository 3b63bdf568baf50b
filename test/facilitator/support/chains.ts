/** One service on two chains, each a node of its own whose connection can be cut. */
import type { Logger } from "pino";
import pino from "pino";
import { API_SCOPES, createFacilitatorClient, type FacilitatorClient } from "turnpike/facilitator";
import { type Address, type Hex, signDigest, typedDataDigest } from "turnpike/protocol";
import { type RunningFacilitator, startFacilitator } from "../../../facilitator/src/app/start";
import { loadChains } from "../../../facilitator/src/config/chains";
import { BLOCK_MS } from "../../support/facilitator";
import type { TestPostgres } from "../../support/postgres";
import { type Relay, startRelay } from "./relay";
import { type ServiceWorld, startServiceWorld } from "./service";

export const CHAIN_A = 31_337;
export const CHAIN_B = 31_338;
export const NETWORK_A = `local-${CHAIN_A}`;
export const NETWORK_B = `local-${CHAIN_B}`;

/** Nothing listens there. */
const NOWHERE = 1;

/** Settings of the worlds that belong to the chain. */
const OF_A_CHAIN = ["RPC_URLS", "TURNPIKE", "BATCH_SETTLER", "TOKENS", "RELAYER_KEYS", "BLOCK_TIME_MS", "POLL_MS"];

export interface TwoChains {
  readonly a: ServiceWorld;
  readonly b: ServiceWorld;
  /** the same payee, token and contracts on both */
  env(more?: Readonly<Record<string, string>>): Record<string, string>;
  start(more?: Readonly<Record<string, string>>, logger?: Logger): Promise<SeveralService>;
  cut(world: ServiceWorld): void;
  restore(world: ServiceWorld): void;
  /** The address of this chain's node leads to the other chain's node. */
  mislead(world: ServiceWorld): void;
  stop(): Promise<void>;
}

export interface SeveralService {
  readonly url: string;
  readonly metricsUrl: string | undefined;
  readonly client: FacilitatorClient;
  get<T>(path: string, key?: string): Promise<{ status: number; body: T }>;
  post<T>(path: string, body: unknown, key?: string): Promise<{ status: number; body: T }>;
  /** an API key of `a.provider`, whose wallet signs for `network` */
  apiKey(network?: string): Promise<string>;
  stop(): Promise<void>;
}

/** @param own whether each node has a process of its own, which can be suspended */
export async function startTwoChains(
  postgres?: TestPostgres,
  blockMs = BLOCK_MS,
  { own = false }: { own?: boolean } = {},
): Promise<TwoChains> {
  const options = { blockMs, own, ...(postgres && { postgres }) };
  const [a, b] = await Promise.all([
    startServiceWorld({ ...options, chainId: CHAIN_A }),
    startServiceWorld({ ...options, chainId: CHAIN_B }),
  ]);
  const portOf = (world: ServiceWorld): number => Number(new URL(world.chain.rpcUrl).port);
  const relays = new Map<ServiceWorld, Relay>();
  for (const world of [a, b]) relays.set(world, await startRelay(portOf(world)));
  const running: RunningFacilitator[] = [];

  const sectionOf = (world: ServiceWorld): Record<string, string> => {
    const own = { ...world.env(), RPC_URLS: `http://127.0.0.1:${relays.get(world)?.port}` } as Record<string, string>;
    return Object.fromEntries(OF_A_CHAIN.map((name) => [`LOCAL_${world.chain.chainId}_${name}`, own[name] ?? ""]));
  };
  const env: TwoChains["env"] = (more = {}) => {
    const shared = Object.entries(a.env()).filter(([name]) => name !== "CHAIN_ID" && !OF_A_CHAIN.includes(name));
    return {
      ...Object.fromEntries(shared),
      CHAINS: `${NETWORK_A},${NETWORK_B}`,
      PORT: "0",
      ALLOW_PRIVATE_WEBHOOKS: "true",
      ...sectionOf(a),
      ...sectionOf(b),
      ...more,
    };
  };
  return {
    a,
    b,
    env,
    async start(more = {}, logger = pino({ level: process.env.TURNPIKE_TEST_LOG ?? "silent" })) {
      const configs = loadChains(env(more));
      if (!configs) throw new Error("CHAINS is not set");
      const service = await startFacilitator(configs, { logger });
      running.push(service);
      return serviceAt(service, a);
    },
    cut: (world) => relays.get(world)?.pointAt(NOWHERE),
    mislead: (world) => relays.get(world)?.pointAt(portOf(world === a ? b : a)),
    restore: (world) => relays.get(world)?.pointAt(portOf(world)),
    async stop() {
      for (const each of running) await each.stop();
      for (const relay of relays.values()) await relay.stop();
      await a.stop();
      await b.stop();
    },
  };
}

function serviceAt(running: RunningFacilitator, { provider }: ServiceWorld): SeveralService {
  const { url, metricsUrl } = running;
  const client = createFacilitatorClient({ url });
  async function call<T>(path: string, init: RequestInit, key?: string): Promise<{ status: number; body: T }> {
    const authorization: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const response = await fetch(url + path, { ...init, headers: { ...init.headers, ...authorization } });
    return { status: response.status, body: (await response.json()) as T };
  }
  return {
    url,
    metricsUrl,
    client,
    get: (path, key) => call(path, {}, key),
    post: (path, body, key) =>
      call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }, key),
    apiKey: () => apiKeyOf(client, provider),
    stop: () => running.stop(),
  };
}

/** An API key that the provider's wallet signs for: it is valid on every chain. */
export async function apiKeyOf(client: FacilitatorClient, provider: ServiceWorld["provider"]): Promise<string> {
  const { proofSigners, chainId } = await client.supported();
  const created = await client.createKey({
    provider: provider.address as Address,
    name: "test",
    scopes: API_SCOPES,
    chainId,
    facilitator: proofSigners[0] as Address,
    sign: async (data) => signDigest(typedDataDigest(data), provider.privateKey as Hex),
  });
  if (created.kind === "refused") throw created.error;
  return created.key.key;
}
