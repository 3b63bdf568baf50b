import { findDeployment } from "../../chain/deployments";
import { type ChainReader, createChainReader } from "../../chain/reader";
import {
  ConfigError,
  configuredAddress,
  networkOfChain,
  requireNetwork,
  systemClock,
  type TurnpikeDeployment,
} from "../../protocol";
import { requireKnownFields } from "../../protocol/arguments";
import { facilitatorSpanName, type Tracing } from "../../protocol/tracing";
import { memoryReceipts } from "../ledger/evidence";
import { type AgentLedger, openLedger } from "../ledger/ledger";
import { memoryLedger } from "../ledger/ledger-store";
import { createRoots, createSigner, type Signer } from "../signing/wallet";
import type { Lifetime } from "./abort";
import { type AgentEnvironment, type AgentOptions, createAgentMemory } from "./agent-options";
import type { AgentContext } from "./context";
import { DEFAULT_LIMITS, type Effects, type FetchFunction, sleepFor } from "./effects";
import { createFacilitators } from "./facilitators";
import { createPolicy } from "./policy";
import type { SpendIntent } from "./policy-options";
import { streamsUploads } from "./upload";

export function createContext(
  options: AgentOptions,
  environment: AgentEnvironment,
  lifetime: Lifetime,
  tracing: Tracing | undefined,
): AgentContext {
  const networks = options.networks ?? [];
  if (options.limits !== undefined) requireKnownFields(options.limits, Object.keys(DEFAULT_LIMITS), "limits.");
  const { ask } = options.policy ?? {};
  const cancellableAsk = typeof ask === "function" && {
    ask: async (intent: SpendIntent) => lifetime.orClosed(Promise.resolve(ask(intent))),
  };
  const policy = createPolicy({ ...options.policy, ...cancellableAsk }, networks);
  const { fetch: ownFetch = fetch, onEvent } = options;
  const serviceFetch = environment.serviceFetch ?? ownFetch;
  // In browsers fetch requires its own `this`.
  const toProviders: FetchFunction = (input, init) => ownFetch(input, init);
  const toServices: FetchFunction = (input, init) => serviceFetch(input, init);
  const effects: Effects = {
    fetch: lifetime.fetch(tracing?.fetch(toProviders, (method) => method) ?? toProviders),
    streamsUploads: ownFetch === fetch && streamsUploads(),
    sleep: lifetime.sleep(options.sleep ?? sleepFor),
    clock: options.clock ?? systemClock,
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    closing: lifetime.closing,
    onClose: (listener) => lifetime.onClose(listener),
    // In a microtask of its own: what an observer throws never affects a payment.
    emit: (event) => onEvent && queueMicrotask(() => onEvent(event)),
  };
  const facilitatorEffects: Effects = {
    ...effects,
    fetch: lifetime.fetch(tracing?.fetch(toServices, facilitatorSpanName) ?? toServices),
  };
  const wallet = createSigner(options.wallet);
  const signer: Signer = { ...wallet, sign: (data) => lifetime.orClosed(wallet.sign(data)) };
  const deployments = (options.deployments ?? []).map(checkDeployment);
  const chains = chainReaders(options, deployments, { ...effects, fetch: lifetime.fetch(toServices) });
  const store = options.ledger ?? memoryLedger();
  let ledger: Promise<AgentLedger> | undefined;
  return {
    effects,
    policy,
    signer,
    roots: createRoots(signer),
    facilitators: createFacilitators(options.facilitators, facilitatorEffects, policy.allowHttp),
    networks,
    tokens: options.tokens ?? [],
    deploymentOf: (chainId) => deployments.find((known) => known.chainId === chainId) ?? findDeployment(chainId),
    chainOf: (chainId) => chains.get(chainId),
    chainClock: options.clock,
    withinOrigin: environment.withinOrigin ?? false,
    ...(environment.memory ?? createAgentMemory(effects.limits)),
    receipts: options.receipts ?? memoryReceipts(),
    ledger: () => {
      ledger ??= openLedger(store).catch((error: unknown) => {
        ledger = undefined;
        throw error;
      });
      return ledger;
    },
    // A ledger that was never used was never opened.
    closeLedger: async () => (await ledger)?.close(),
  };
}

function checkDeployment({ chainId, turnpike }: TurnpikeDeployment): TurnpikeDeployment {
  if (!Number.isSafeInteger(chainId) || chainId <= 0)
    throw new ConfigError("deployments: chainId must be a positive integer");
  const field = `deployments: turnpike of chain ${chainId}`;
  return { chainId, turnpike: configuredAddress(turnpike, field, `${field} is no address`) };
}

function chainReaders(
  { rpc, policy, networks = [] }: AgentOptions,
  deployments: readonly TurnpikeDeployment[],
  effects: Effects,
): Map<number, ChainReader> {
  if (rpc === undefined) return new Map();
  const { fetch, closing: signal, limits } = effects;
  const readerOf = (url: string, chainId: number) =>
    createChainReader({ url, chainId, fetch, signal, timeoutMs: limits.facilitatorTimeoutMs });
  if (typeof rpc !== "string") {
    return new Map(Object.entries(rpc).map(([id, url]) => [Number(id), readerOf(url, Number(id))]));
  }
  const named = (policy.networks ?? []).map((name) => requireNetwork(name, networks).chainId);
  const chainIds = [...new Set([...deployments.map(({ chainId }) => chainId), ...named])];
  const [chainId] = chainIds;
  if (chainId === undefined || chainIds.length > 1) {
    throw new ConfigError("rpc is one URL, but the agent's chain is not clear: write rpc: { [chainId]: url }");
  }
  return new Map([[networkOfChain(chainId, networks).chainId, readerOf(rpc, chainId)]]);
}
