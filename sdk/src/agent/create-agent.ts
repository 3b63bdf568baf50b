/** Wires an agent from its options. The only place where defaults stand. */
import { findDeployment } from "../chain/deployments";
import {
  type Address,
  type Clock,
  ConfigError,
  checksum,
  type Hex,
  isAddress,
  type Network,
  networkOfChain,
  requireNetwork,
  systemClock,
  type TurnpikeDeployment,
} from "../protocol";
import { type Book, bookOf } from "./book";
import { type ChainReader, createChainReader } from "./chain-reader";
import {
  type CancelOptions,
  type ChangePlanOptions,
  cancel,
  changePlan,
  pause,
  type ResumeOptions,
  rekey,
  resume,
  setMaxOverage,
} from "./changes";
import type { AgentContext, KnownToken } from "./context";
import { type AgentEvent, type AgentLimits, DEFAULT_LIMITS, type Effects, type Sleep, sleepFor } from "./effects";
import { createFacilitators } from "./facilitators";
import { agentFetch } from "./fetch";
import { type Ledger, memoryLedger } from "./ledger";
import { addOrigins, list } from "./list";
import type { SubscribeOptions } from "./offer";
import { type PayInit, pay } from "./pay";
import { giveUp, type PaymentView, payments, settleHeld } from "./payments";
import type { TopUp } from "./permits";
import { type AgentPolicy, type Amount, createPolicy } from "./policy";
import type { PaidResponse } from "./receipt";
import { type RecoverOptions, recover } from "./recover";
import type { RequestInput } from "./request";
import { createRoots } from "./secrets";
import { subscribe } from "./subscribe";
import type { Subscription, SubscriptionRef } from "./subscription";
import { type TopUpOptions, topUp } from "./top-up";
import { type AgentWallet, createSigner } from "./wallet";

export interface AgentOptions {
  /** an ethers signer, a viem account, or `walletFromKey("0x...")` */
  readonly wallet: AgentWallet;
  readonly policy: AgentPolicy;
  /** base URLs of the only Facilitators that ever get a signature; the first is used where none is named */
  readonly facilitators: readonly string[];
  /** default: in memory, forgotten with the process */
  readonly ledger?: Ledger;
  /** where Turnpike stands: needed for subscriptions, since signatures and permits name the contract */
  readonly deployments?: readonly TurnpikeDeployment[];
  /** networks that are in no preset */
  readonly networks?: readonly Network[];
  /** tokens whose signing domain is known for sure */
  readonly tokens?: readonly KnownToken[];
  /** the agent's own JSON-RPC, believed before any Facilitator: by chain id, or one URL with a single deployment */
  readonly rpc?: string | Readonly<Record<number, string>>;
  readonly fetch?: typeof fetch;
  /** chain time, where it need not be asked for */
  readonly clock?: Clock;
  readonly sleep?: Sleep;
  readonly onEvent?: (event: AgentEvent) => void;
  readonly limits?: Partial<AgentLimits>;
}

export interface Agent {
  address(): Promise<Address>;
  /** @see pay in ./pay.ts */
  pay(input: RequestInput, init?: PayInit): Promise<PaidResponse>;
  /** A drop-in `fetch`. @see agentFetch in ./fetch.ts */
  fetch(input: RequestInput, init?: PayInit): Promise<Response>;
  /** @see subscribe in ./subscribe.ts */
  subscribe(options: SubscribeOptions): Promise<Subscription>;
  /** @see recover in ./recover.ts */
  recover(options: RecoverOptions): Promise<Subscription[]>;
  list(): Promise<Subscription[]>;
  /** Lets `fetch` use a subscription at these origins too. */
  addOrigins(ref: SubscriptionRef, origins: readonly string[]): Promise<readonly string[]>;
  pause(ref: SubscriptionRef): Promise<Subscription>;
  resume(ref: SubscriptionRef, options?: ResumeOptions): Promise<Subscription>;
  cancel(ref: SubscriptionRef, options?: CancelOptions): Promise<Subscription>;
  setMaxOverage(ref: SubscriptionRef, cap: Amount): Promise<Subscription>;
  changePlan(ref: SubscriptionRef, options: ChangePlanOptions): Promise<Subscription>;
  rekey(ref: SubscriptionRef): Promise<Subscription>;
  /** Raises token approvals that have become low. */
  topUp(options?: TopUpOptions): Promise<TopUp[]>;
  /** What the ledger holds, oldest first. */
  payments(): Promise<PaymentView[]>;
  /** Asks for the outcome of payments that are not known to have settled, as after a restart. */
  settleHeld(): Promise<PaymentView[]>;
  /** Stops presenting a payment that the provider will not serve; its amount stays in the budget. */
  giveUp(paymentId: Hex): Promise<void>;
  close(): Promise<void>;
}

/** @throws ConfigError that names the option */
export function createAgent(options: AgentOptions): Agent {
  const context = createContext(options);
  return {
    address: () => context.signer.address(),
    pay: (input, init) => pay(context, input, init),
    fetch: (input, init) => agentFetch(context, input, init),
    subscribe: (signup) => subscribe(context, signup),
    recover: (wanted) => recover(context, wanted),
    list: () => list(context),
    addOrigins: (ref, origins) => addOrigins(context, ref, origins),
    pause: (ref) => pause(context, ref),
    resume: (ref, how) => resume(context, ref, how),
    cancel: (ref, how) => cancel(context, ref, how),
    setMaxOverage: (ref, cap) => setMaxOverage(context, ref, cap),
    changePlan: async (ref, how) => changePlan(context, ref, how),
    rekey: (ref) => rekey(context, ref),
    topUp: (how) => topUp(context, how),
    payments: () => payments(context),
    settleHeld: () => settleHeld(context),
    giveUp: (paymentId) => giveUp(context, paymentId),
    close: async () => (await context.book()).close(),
  };
}

function createContext(options: AgentOptions): AgentContext {
  const networks = options.networks ?? [];
  const policy = createPolicy(options.policy, networks);
  const { fetch: ownFetch = fetch, onEvent } = options;
  const effects: Effects = {
    // fetch insists on its own `this` in browsers.
    fetch: (input, init) => ownFetch(input, init),
    sleep: options.sleep ?? sleepFor,
    clock: options.clock ?? systemClock,
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    // In a turn of its own: what an observer throws is the observer's, never a payment's.
    emit: (event) => onEvent && queueMicrotask(() => onEvent(event)),
  };
  const signer = createSigner(options.wallet);
  const deployments = (options.deployments ?? []).map(checkDeployment);
  const chains = chainReaders(options, deployments, effects);
  const ledger = options.ledger ?? memoryLedger();
  return {
    effects,
    policy,
    signer,
    roots: createRoots(signer),
    facilitators: createFacilitators(options.facilitators, effects, policy.allowHttp),
    networks,
    tokens: options.tokens ?? [],
    deploymentOf: (chainId) => deployments.find((known) => known.chainId === chainId) ?? findDeployment(chainId),
    chainOf: (chainId) => chains.get(chainId),
    chainClock: options.clock,
    freshUntilMs: new Map(),
    book: (): Promise<Book> => bookOf(ledger),
  };
}

function checkDeployment({ chainId, turnpike }: TurnpikeDeployment): TurnpikeDeployment {
  if (!Number.isSafeInteger(chainId) || chainId <= 0)
    throw new ConfigError("deployments: chainId must be a positive integer");
  if (!isAddress(turnpike)) throw new ConfigError(`deployments: turnpike of chain ${chainId} is no address`);
  return { chainId, turnpike: checksum(turnpike) };
}

function chainReaders(
  { rpc, policy, networks = [] }: AgentOptions,
  deployments: readonly TurnpikeDeployment[],
  effects: Effects,
): Map<number, ChainReader> {
  if (rpc === undefined) return new Map();
  if (typeof rpc !== "string") {
    return new Map(Object.entries(rpc).map(([id, url]) => [Number(id), createChainReader(url, Number(id), effects)]));
  }
  const named = (policy.networks ?? []).map((name) => requireNetwork(name, networks).chainId);
  const chainIds = [...new Set([...deployments.map(({ chainId }) => chainId), ...named])];
  const [chainId] = chainIds;
  if (chainId === undefined || chainIds.length > 1) {
    throw new ConfigError("rpc is one URL, but the agent's chain is not clear: write rpc: { [chainId]: url }");
  }
  return new Map([[networkOfChain(chainId, networks).chainId, createChainReader(rpc, chainId, effects)]]);
}
