/** Creates an agent from its options. */
import { findDeployment } from "../chain/deployments";
import {
  type Address,
  type Clock,
  ConfigError,
  configuredAddress,
  type Hex,
  type Network,
  networkOfChain,
  requireNetwork,
  systemClock,
  type TurnpikeDeployment,
} from "../protocol";
import { facilitatorSpanName, type OpenTelemetryApi, Tracing } from "../protocol/tracing";
import { Lifetime, orNothingSigned, signalOf } from "./core/abort";
import { type ChainReader, createChainReader } from "./core/chain-reader";
import { type AgentContext, type KnownToken, RecentChanges } from "./core/context";
import {
  type AgentEvent,
  type AgentLimits,
  DEFAULT_LIMITS,
  type Effects,
  type FetchFunction,
  type Sleep,
  sleepFor,
} from "./core/effects";
import { createFacilitators, type FacilitatorOption } from "./core/facilitators";
import { registerAgent } from "./core/internals";
import { requireKnownFields } from "./core/known-fields";
import { createPolicy } from "./core/policy";
import type { AgentPolicy, Amount, SpendIntent } from "./core/policy-options";
import type { RequestInput } from "./core/request";
import { agentFetch } from "./fetch";
import { type AgentLedger, openLedger } from "./ledger/ledger";
import { type Ledger, memoryLedger } from "./ledger/ledger-store";
import { memoryReceipts, type ReceiptStore } from "./ledger/receipt-store";
import { type BudgetView, budget } from "./payments/budget";
import { charges, giveUp, payments, settleHeld } from "./payments/held";
import { type PayInit, pay } from "./payments/pay";
import type { PaidResponse } from "./payments/receipt";
import { type Credited, creditRefunds } from "./payments/refunds";
import type { ChargeView, PaymentView } from "./payments/view";
import { type PriceQuote, type QuoteInit, quote } from "./pricing/price-quote";
import { type Audit, type AuditOptions, audit } from "./receipts/audit";
import { type AgentWallet, createRoots, createSigner, type Signer } from "./signing/wallet";
import { type ChangePlanOptions, changePlan } from "./subscriptions/change-plan";
import {
  type CancelOptions,
  cancel,
  pause,
  type ResumeOptions,
  rekey,
  resume,
  setMaxOverage,
  setUntil,
} from "./subscriptions/changes";
import type { SubscribeOptions } from "./subscriptions/offers";
import { watchPayees } from "./subscriptions/payees";
import { type TopUp, type TopUpOptions, topUp } from "./subscriptions/permits";
import { addOrigins, list, type RecoverOptions, recover } from "./subscriptions/recover";
import { voidSignup } from "./subscriptions/signup";
import { subscribe } from "./subscriptions/subscribe";
import type { Subscription, SubscriptionRef } from "./subscriptions/subscription";

/** What an agent is made of. */
export interface AgentOptions {
  /** an ethers signer, a viem account or WalletClient, an EIP-1193 provider, or `walletFromKey("0x...")` */
  readonly wallet: AgentWallet;
  readonly policy: AgentPolicy;
  /**
   * the only Facilitators that ever get a signature: base URLs, with or without pinned signers; the first is used where
   * none is named
   */
  readonly facilitators: readonly FacilitatorOption[];
  /** default: in memory, forgotten with the process */
  readonly ledger?: Ledger;
  /** where usage receipts are kept, for {@link Agent.audit}; default: in memory, forgotten with the process */
  readonly receipts?: ReceiptStore;
  /** Turnpike's addresses: needed for subscriptions, since signatures and permits name the contract */
  readonly deployments?: readonly TurnpikeDeployment[];
  /** networks that are in no preset */
  readonly networks?: readonly Network[];
  /** tokens whose signing domain is known for sure */
  readonly tokens?: readonly KnownToken[];
  /** the agent's own JSON-RPC, trusted before any Facilitator: by chain id, or one URL with a single deployment */
  readonly rpc?: string | Readonly<Record<number, string>>;
  /** what every request goes through; default: the platform's */
  readonly fetch?: typeof fetch;
  /** chain time, where it need not be asked for */
  readonly clock?: Clock;
  readonly sleep?: Sleep;
  /** Called with progress, in a microtask of its own: what it throws never affects a payment. */
  readonly onEvent?: (event: AgentEvent) => void;
  readonly limits?: Partial<AgentLimits>;
  /**
   * the module `@opentelemetry/api`: calls of `fetch`, `pay` and `subscribe`, and all requests, become spans of the
   * program's traces, which providers and Facilitators continue by the header `traceparent`
   */
  readonly openTelemetry?: OpenTelemetryApi;
}

/** An agent: pays and subscribes within its policy, by signatures alone. Amounts are base units. */
export interface Agent {
  /** The wallet's address, checksummed. */
  address(): Promise<Address>;
  /**
   * Requests `input` and pays for it if the provider asks and the policy allows it, at most once.
   * @returns the provider's response, with its receipt when it was paid for
   * @throws PolicyRefused when nothing that is offered may be paid; nothing was signed
   * @throws PaymentPending when a payment's outcome is unknown; the next call presents the same one
   * @throws TurnpikeError RateLimited, with `retryAfterSec`, when a rate limit refused the first post: nothing was submitted
   * @throws Unavailable when the chain or the Facilitator cannot be read; nothing was signed
   * @throws InvalidPaymentProof when the provider keeps rejecting the payment that was made
   * @throws AbortError when the signal of `init` aborts: `message` says whether anything was signed, and what to do
   */
  pay(input: RequestInput, init?: PayInit): Promise<PaidResponse>;
  /**
   * Requests like `fetch`: with a subscription where one is recorded for the origin, with a payment where the policy
   * allows it. Otherwise it returns the 402 as it came.
   * @throws as `fetch` does, and what `pay` throws once a payment was made
   */
  fetch(input: RequestInput, init?: PayInit): Promise<Response>;
  /** Returns what a URL costs by every offered way, and which is cheapest for how much use. Signs and pays nothing. */
  quote(input: RequestInput, init?: QuoteInit): Promise<PriceQuote>;
  /**
   * Subscribes to a plan, within the policy, and pays its first period. Returns the active subscription on that plan where
   * the wallet has one already, also one that ends with its period.
   * @throws SubscriptionNotActive when the wallet's own one is paused or past due: `details.idHash` names it, `resume` or
   * funds make it active, and `another` buys a second one
   * @throws PolicyRefused, PlanDeprecated or InsufficientFunds
   * @throws PaymentPending when the outcome is unknown; the next call presents the same signup
   */
  subscribe(options: SubscribeOptions): Promise<Subscription>;
  /**
   * Finds this wallet's live subscriptions that were made under a plan, from the wallet's signatures and the chain
   * alone, and records them in the ledger. A wallet whose signatures differ from one time to the next finds none.
   */
  recover(options: RecoverOptions): Promise<Subscription[]>;
  /**
   * Every subscription in the ledger that has not ended, as the chain has it now: read by the agent's own RPC where it
   * has one, else by the Facilitator. With `policy.onPayeeChange` it first looks for another payee of their plans.
   */
  list(): Promise<Subscription[]>;
  /** Lets `fetch` use a subscription at these origins too. */
  addOrigins(ref: SubscriptionRef, origins: readonly string[]): Promise<readonly string[]>;
  /**
   * Stops renewals and service.
   * @throws TurnpikeError UnknownSubscription; PaymentPending when the outcome is unknown
   */
  pause(ref: SubscriptionRef): Promise<Subscription>;
  /** Ends a pause; after the paid period this charges the next one, at most `maxCharge`. */
  resume(ref: SubscriptionRef, options?: ResumeOptions): Promise<Subscription>;
  /** Ends it: at once, or at the end of what is paid. */
  cancel(ref: SubscriptionRef, options?: CancelOptions): Promise<Subscription>;
  /** Raises or lowers the cap of metered overage, base units; a raise comes with the token approval it needs. */
  setMaxOverage(ref: SubscriptionRef, cap: Amount): Promise<Subscription>;
  /**
   * Moves to another plan of the same provider and token: at once for the quoted charge, or from the next charged period
   * on.
   * @throws TurnpikeError PlanMismatch
   */
  changePlan(ref: SubscriptionRef, options: ChangePlanOptions): Promise<Subscription>;
  /**
   * Sets, moves or removes (undefined) the end after which nothing is charged: unix seconds or a Date. Service goes on
   * until then, and until the paid period's end.
   */
  setUntil(ref: SubscriptionRef, until: number | Date | undefined): Promise<Subscription>;
  /**
   * Withdraws a signup whose outcome is not known, such as one behind a Facilitator that does not answer: its signature
   * is worth nothing then. Returns the subscription if it was made before.
   */
  void(ref: SubscriptionRef): Promise<Subscription | undefined>;
  /** Moves to a new id; the old one is invalid from then on. */
  rekey(ref: SubscriptionRef): Promise<Subscription>;
  /** Raises token approvals that have become low. */
  topUp(options?: TopUpOptions): Promise<TopUp[]>;
  /** Lists the ledger's payments, oldest first. */
  payments(): Promise<PaymentView[]>;
  /** Lists the charges of subscriptions that this agent signed for, oldest first. Renewals and debits are not among them. */
  charges(): Promise<ChargeView[]>;
  /** Returns how much of the last 24 hours' budget is taken, by this agent and all that share its ledger. */
  budget(): Promise<BudgetView>;
  /** Asks for the outcome of payments that are not known to have settled, as after a restart. */
  settleHeld(): Promise<PaymentView[]>;
  /**
   * Credits refunds to the budget, where the agent's own RPC proves them: of the last day's payments, and of the charges
   * that a signup, a plan change or a resumption made. Returns what was credited; without an RPC nothing is.
   */
  creditRefunds(): Promise<Credited[]>;
  /**
   * Compares the usage receipts that the agent holds with what the chain shows as debited, for each subscription and
   * cycle. Needs the agent's own RPC.
   * @throws ConfigError without an RPC of the chain; Unavailable
   */
  audit(options?: AuditOptions): Promise<Audit>;
  /** Stops presenting a payment that the provider will not serve; its amount stays in the budget. */
  giveUp(paymentId: Hex): Promise<void>;
  /**
   * Ends every call that waits, and releases the ledger. A payment whose outcome is unknown by then stays in it: the
   * next agent with this ledger presents the same one. A call that had signed nothing rejects with AbortError.
   */
  close(): Promise<void>;
}

/** @throws ConfigError that names the option */
export function createAgent(options: AgentOptions): Agent {
  return createAgentWith(options, {});
}

/** What one program's agents of one wallet share, and how they reach providers that the program does not trust. */
export interface AgentEnvironment {
  /** what an agent remembers beside its ledger, for programs that create an agent for each call */
  readonly memory?: AgentMemory;
  /** what requests to the configured Facilitators and RPCs go through; default: the options' fetch */
  readonly serviceFetch?: typeof fetch;
  /** never send a request to another origin than the caller named, redirects included; default false */
  readonly withinOrigin?: boolean;
}

/** What an agent remembers of recent changes. */
export type AgentMemory = Pick<AgentContext, "recentChanges" | "payeeLooks">;

/** Returns a memory for agents with these limits. */
export function createAgentMemory({ freshMs }: Pick<AgentLimits, "freshMs">): AgentMemory {
  return { recentChanges: new RecentChanges(freshMs), payeeLooks: new Map() };
}

/** Creates an agent as part of a larger program of this package. @throws ConfigError that names the option */
export function createAgentWith(options: AgentOptions, environment: AgentEnvironment): Agent {
  const lifetime = new Lifetime();
  const tracing = options.openTelemetry && new Tracing(options.openTelemetry);
  const context = createContext(options, environment, lifetime, tracing);
  const run = <T>(work: () => Promise<T>) => lifetime.run(work);
  const runUntil = <T>(signal: AbortSignal | undefined, work: () => Promise<T>) =>
    run(() => orNothingSigned(signal, work));
  const abortable = <T>(input: RequestInput, init: RequestInit | undefined, work: () => Promise<T>) =>
    runUntil(signalOf(input, init), work);
  const traced = <T>(name: string, work: () => Promise<T>) => (tracing ? tracing.run({ name }, work) : work());
  let closed: Promise<void> | undefined;
  const agent: Agent = {
    address: () => context.signer.address(),
    pay: (input, init) => traced("pay", () => abortable(input, init, async () => pay(context, input, init))),
    fetch: (input, init) => traced("fetch", () => abortable(input, init, async () => agentFetch(context, input, init))),
    quote: (input, init) => abortable(input, init, async () => quote(context, input, init)),
    subscribe: (signup) => traced("subscribe", () => run(async () => subscribe(context, signup))),
    recover: (wanted) => run(async () => recover(context, wanted)),
    list: () =>
      run(async () => {
        await watchPayees(context);
        return list(context);
      }),
    addOrigins: (ref, origins) => run(async () => addOrigins(context, ref, origins)),
    pause: (ref) => run(async () => pause(context, ref)),
    resume: (ref, how) => run(async () => resume(context, ref, how)),
    cancel: (ref, how) => run(async () => cancel(context, ref, how)),
    setMaxOverage: (ref, cap) => run(async () => setMaxOverage(context, ref, cap)),
    changePlan: (ref, how) => run(async () => changePlan(context, ref, how)),
    setUntil: (ref, until) => run(async () => setUntil(context, ref, until)),
    void: (ref) => run(async () => voidSignup(context, ref)),
    rekey: (ref) => run(async () => rekey(context, ref)),
    topUp: (how) => run(async () => topUp(context, how)),
    payments: () => run(async () => payments(context)),
    charges: () => run(async () => charges(context)),
    budget: () => run(async () => budget(context)),
    settleHeld: () => run(async () => settleHeld(context)),
    creditRefunds: () => run(async () => creditRefunds(context)),
    audit: (how) => run(async () => audit(context, how)),
    giveUp: (paymentId) => run(async () => giveUp(context, paymentId)),
    close: () => {
      closed ??= closeAll(context, lifetime);
      return closed;
    },
  };
  return registerAgent(agent, { context, run: runUntil });
}

async function closeAll(context: AgentContext, lifetime: Lifetime): Promise<void> {
  await lifetime.close();
  await context.closeLedger();
}

const OPTIONS: Readonly<Record<keyof AgentOptions, true>> = {
  wallet: true,
  policy: true,
  facilitators: true,
  ledger: true,
  receipts: true,
  deployments: true,
  networks: true,
  tokens: true,
  rpc: true,
  fetch: true,
  clock: true,
  sleep: true,
  onEvent: true,
  limits: true,
  openTelemetry: true,
};

function createContext(
  options: AgentOptions,
  environment: AgentEnvironment,
  lifetime: Lifetime,
  tracing: Tracing | undefined,
): AgentContext {
  const networks = options.networks ?? [];
  requireKnownFields(options, Object.keys(OPTIONS));
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
