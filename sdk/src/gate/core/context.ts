/**
 * Creates what one provider's gates share: settings, terms, clock, claims, and access to the chain and the Facilitator.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type ChainClock, createChainClock } from "../../chain/clock";
import { type HeadWatcher, watchHeads } from "../../chain/heads";
import { connectRpc, type Rpc } from "../../chain/rpc";
import { createStateReader, type StateReader } from "../../chain/states";
import { createFacilitatorClient, type FacilitatorClient } from "../../facilitator/client";
import { supportedOn } from "../../facilitator/service";
import type { Subscription } from "../../facilitator/subscriptions";
import type { FetchLike } from "../../facilitator/transport";
import {
  type Address,
  type Clock,
  ConfigError,
  caip2Of,
  type Network,
  systemClock,
  type TurnpikeError,
  Unavailable,
} from "../../protocol";
import { facilitatorSpanName, Tracing } from "../../protocol/tracing";
import { atMost, Deadline } from "../../protocol/waiting";
import { fileClaims } from "../claims/file";
import { memoryClaims } from "../claims/memory";
import type { ClaimStore } from "../claims/rules";
import type { MeterPort } from "../metering/meter";
import type { Decision } from "./answer";
import { createFacilitatorCheck, type FacilitatorCheck } from "./check-facilitator";
import { createSupportSource, type SupportSource } from "./facilitator-support";
import { createOfferReceiptIssuer, type OfferReceiptIssuer } from "./offer-receipts";
import type { PaymentTarget, ProviderOptions } from "./options";
import { createRefundRequests, type RefundRequests } from "./refund-requests";
import type { GateRequest } from "./request";
import { type Settings, settingsOf, targetSettings } from "./settings";
import { createTerms, type Terms } from "./terms";
import { UsageReceiptIssuer } from "./usage-receipts";

export interface GateReports {
  /** @returns a callback for the end of a request that was allowed, if it is counted */
  decided(decision: Decision, request: GateRequest): ((how: "use" | "release") => void) | undefined;
  /** A charge was refused while the handler ran: the client gets 402 instead of the handler's answer. */
  refusedCharge(decision: Decision | undefined, request: GateRequest, error: TurnpikeError | undefined): void;
  /** The gate itself failed. */
  failed(error: unknown, request: GateRequest): void;
  flush(): Promise<void>;
  close(): Promise<void>;
}

export interface GateContext {
  readonly settings: Settings;
  /** absent: nothing is traced */
  readonly tracing: Tracing | undefined;
  readonly terms: Terms;
  readonly time: GateTime;
  readonly rpc: Rpc | undefined;
  readonly states: StateReader | undefined;
  readonly facilitator: Pick<
    GateFacilitator,
    | "verifyProof"
    | "x402Verify"
    | "x402Settle"
    | "releasePayment"
    | "payment"
    | "signsGrants"
    | "reserves"
    | "knownToReserve"
  >;
  /** has payments refunded whose handler failed */
  readonly refunds: RefundRequests;
  /** compares the pinned signers with the Facilitator's own */
  readonly facilitatorCheck: FacilitatorCheck;
  /** what the Facilitator supports */
  readonly support: SupportSource;
  /** Lists a wallet's subscriptions from the Facilitator's index, newest first. @throws Unavailable */
  ownedBy(wallet: Address): Promise<readonly OwnedSubscription[]>;
  readonly claims: ClaimStore;
  /** signs offers and receipts, where that is configured */
  readonly offerReceipts: OfferReceiptIssuer | undefined;
  readonly meter: MeterPort | undefined;
  /** signs receipts of metered charges, where a key for it is configured */
  readonly usageReceipts: UsageReceiptIssuer | undefined;
  /** counts the outcomes of requests, where that is configured */
  readonly reports: GateReports | undefined;
  /** Resolves once the meter's store is open. @throws Unavailable */
  meterStarted(): Promise<void>;
  isMeterOpen(): boolean;
  /**
   * Returns the context in which payments of one entry are judged: its own network, token, payee, Facilitator and reading
   * of the chain; claims and all else are this provider's. This context itself where nothing differs.
   * @param field the entry's own, for errors
   * @throws ConfigError
   */
  forTarget(target: PaymentTarget, field: string): GateContext;
  close(): Promise<void>;
}

export type OwnedSubscription = Pick<Subscription, "idHash" | "planId" | "status">;

export interface GateContextParts {
  /** Creates the meter; undefined where no key to debit with is configured. */
  readonly meterOf: (
    options: ProviderOptions,
    settings: Settings,
    clock: Clock,
    rpc: Rpc | undefined,
  ) => MeterPort | undefined;
  /** Creates the counter of decisions; undefined where no key for it is configured. @throws ConfigError */
  readonly reportsOf: (options: ProviderOptions, settings: Settings, clock: Clock) => GateReports | undefined;
}

const LOCAL = /^local-/;

/** A public chain without a new block for this long is not being read correctly. */
const MAX_SILENCE_MS = 120_000;

/** @throws ConfigError naming the setting */
export function createGateContext(options: ProviderOptions, parts: GateContextParts): GateContext {
  const settings = settingsOf(options, process.env.NODE_ENV === "production");
  const { chainId, name } = settings.network;
  const rpc =
    options.rpc ?? (settings.rpcUrls.length > 0 ? connectRpc({ urls: settings.rpcUrls, chainId }) : undefined);
  const terms = createTerms(settings, rpc);
  const followed = rpc && follow(rpc, settings, terms, options, LOCAL.test(name));
  const time = options.clock ? fixedTime(options.clock) : (followed?.time ?? fixedTime(systemClock));
  let claims: ClaimStore | undefined;
  let starting: Promise<void> | undefined;
  let isMeterOpen = false;
  const tracing = options.openTelemetry && new Tracing(options.openTelemetry);
  const facilitator = lazily(() => gateFacilitatorOf(settings, options, tracing));
  const facilitatorCheck = createFacilitatorCheck({
    settings,
    proofSigners: () => facilitator.proofSigners(),
    nowSec: () => time.nowSec(),
  });
  const meter = options.meter ?? parts.meterOf(options, settings, time, rpc);
  const usageReceipts = usageReceiptsOf(options, settings, rpc);
  for (const each of [meter, usageReceipts]) {
    if (!each) continue;
    followed?.heads.listen({
      onAdvance: (_head, touched) => each.onBlocks(touched),
      onReset: () => each.onBlocks(undefined),
    });
  }
  const reports = parts.reportsOf(options, settings, time);
  const { offerReceipt, clock = systemClock } = options;
  const statements = { lifeSec: settings.quoteLifeSec, clock };
  const offerReceipts = offerReceipt && createOfferReceiptIssuer(offerReceipt, statements);
  const refunds = createRefundRequests((paymentId) => facilitator.refundPayment(paymentId));
  const targets = createTargetContexts(() => context, options);
  const context: GateContext = {
    settings,
    tracing,
    terms,
    time,
    rpc,
    states: followed?.states,
    facilitator,
    refunds,
    facilitatorCheck,
    support: createSupportSource({ settings, rpc, supported: () => facilitator.supported() }),
    async ownedBy(wallet) {
      const listed = await facilitator.subscriptionsOf(wallet);
      if (listed.kind === "found") return listed.value.subscriptions;
      throw new Unavailable("The Facilitator did not list the account's subscriptions.", { cause: listed.error });
    },
    get claims() {
      claims ??= claimsOf(options);
      return claims;
    },
    offerReceipts,
    meter,
    usageReceipts,
    reports,
    async meterStarted() {
      if (isMeterOpen) return;
      starting ??= meter?.start();
      try {
        await starting;
        isMeterOpen = meter !== undefined;
      } catch (error) {
        starting = undefined;
        throw error;
      }
    },
    isMeterOpen: () => isMeterOpen,
    forTarget: (target, field) => targets.of(target, field),
    async close() {
      targets.close();
      refunds.close();
      await reports?.close();
      followed?.states?.close();
      followed?.heads.close();
      if (isMeterOpen || !options.meter) await meter?.stop();
      if (typeof options.claims !== "object") await claims?.close();
      if (!options.rpc) rpc?.close();
    },
  };
  return context;
}

/** @throws ConfigError for a key that no charge would ever use */
function usageReceiptsOf(
  { receiptKey: key }: ProviderOptions,
  settings: Settings,
  rpc: Rpc | undefined,
): UsageReceiptIssuer | undefined {
  const { deployment } = settings;
  if (key === undefined) return undefined;
  if (!deployment) throw new ConfigError("receiptKey (TURNPIKE_RECEIPT_KEY) needs turnpike (TURNPIKE_ADDRESS)");
  const warn = (message: string) => process.emitWarning(message, { code: "TurnpikeReceiptRight" });
  return new UsageReceiptIssuer({ key, deployment, origin: settings, rpc, warn });
}

/** The contexts of entries that differ from the provider's own settings, each made once. */
function createTargetContexts(provider: () => GateContext, options: ProviderOptions) {
  const contexts = new Map<string, GateContext>();
  const chains = new Map<string, Pick<GateContext, "rpc" | "time"> & { readonly stop: () => void }>();

  function chainOf({ network, rpcUrls }: Settings): Pick<GateContext, "rpc" | "time"> {
    const base = provider();
    if (network.chainId === base.settings.network.chainId) return base;
    const key = JSON.stringify([network.chainId, rpcUrls]);
    const known = chains.get(key);
    if (known) return known;
    const made = openChain(network, rpcUrls, options);
    chains.set(key, made);
    return made;
  }

  return {
    of(target: PaymentTarget, field: string): GateContext {
      const base = provider();
      const settings = targetSettings(base.settings, target, field);
      const key = targetKeyOf(settings);
      if (key === targetKeyOf(base.settings)) return base;
      const known = contexts.get(key);
      if (known) return known;
      const made = targetContext(base, settings, chainOf(settings), options);
      contexts.set(key, made);
      return made;
    },
    close() {
      for (const { refunds } of contexts.values()) refunds.close();
      for (const { stop } of chains.values()) stop();
    },
  };
}

function targetKeyOf({ network, token, payTo, facilitator, rpcUrls }: Settings): string {
  const { url, signers, trustUnsigned, refundsKey } = facilitator ?? {};
  return JSON.stringify([network.chainId, token, payTo, url, signers?.list, trustUnsigned, refundsKey, rpcUrls]);
}

function openChain({ chainId, name }: Network, urls: readonly string[], options: ProviderOptions) {
  const rpc = urls.length > 0 ? connectRpc({ urls, chainId }) : undefined;
  const followed = rpc && followHeads({ rpc, turnpike: undefined, options, isLocal: LOCAL.test(name) });
  const time = options.clock ? fixedTime(options.clock) : (followed?.time ?? fixedTime(systemClock));
  const stop = (): void => {
    followed?.heads.close();
    rpc?.close();
  };
  return { rpc, time, stop };
}

function targetContext(
  base: GateContext,
  settings: Settings,
  { rpc, time }: Pick<GateContext, "rpc" | "time">,
  options: ProviderOptions,
): GateContext {
  const { tracing } = base;
  const facilitator = lazily(() => gateFacilitatorOf(settings, options, tracing));
  const proofSigners = () => facilitator.proofSigners();
  return {
    settings,
    tracing,
    terms: createTerms(settings, rpc),
    time,
    rpc,
    states: undefined,
    facilitator,
    refunds: createRefundRequests((paymentId) => facilitator.refundPayment(paymentId)),
    facilitatorCheck: createFacilitatorCheck({ settings, proofSigners, nowSec: () => time.nowSec() }),
    support: createSupportSource({ settings, rpc, supported: () => facilitator.supported() }),
    ownedBy: base.ownedBy,
    get claims() {
      return base.claims;
    },
    offerReceipts: base.offerReceipts,
    meter: base.meter,
    usageReceipts: base.usageReceipts,
    reports: base.reports,
    meterStarted: base.meterStarted,
    isMeterOpen: base.isMeterOpen,
    forTarget: base.forTarget,
    close: base.close,
  };
}

interface Followed {
  readonly heads: HeadWatcher;
  readonly time: GateTime;
  readonly states: StateReader | undefined;
}

function follow(rpc: Rpc, settings: Settings, terms: Terms, options: ProviderOptions, isLocal: boolean): Followed {
  const turnpike = settings.deployment?.turnpike;
  const { heads, time } = followHeads({ rpc, turnpike, options, isLocal });
  heads.listen(terms);
  const states = turnpike && createStateReader({ rpc, turnpike, heads });
  return { heads, time, states };
}

function followHeads({
  rpc,
  turnpike,
  options: { pollMs },
  isLocal,
}: {
  readonly rpc: Rpc;
  readonly turnpike: Address | undefined;
  readonly options: ProviderOptions;
  readonly isLocal: boolean;
}): Omit<Followed, "states"> {
  const clock = createChainClock();
  const silence = isLocal ? {} : { maxSilenceMs: MAX_SILENCE_MS };
  const heads = watchHeads({ rpc, clock, turnpike, ...(pollMs === undefined ? {} : { pollMs }), ...silence });
  return { heads, time: chainTime(clock, heads) };
}

function gateFacilitatorOf(
  { facilitator, facilitatorWaitMs, network: { chainId } }: Settings,
  { fetch }: ProviderOptions,
  tracing: Tracing | undefined,
): GateFacilitator {
  if (!facilitator) throw new ConfigError("facilitator is not set (TURNPIKE_FACILITATOR_URL)");
  const { url, refundsKey } = facilitator;
  return createGateFacilitator({ url, chainId, refundsKey, waitMs: facilitatorWaitMs, fetch, tracing });
}

function lazily(make: () => GateFacilitator): GateFacilitator {
  let client: GateFacilitator | undefined;
  const get = (): GateFacilitator => {
    client ??= make();
    return client;
  };
  return {
    verifyProof: (...args) => get().verifyProof(...args),
    x402Verify: (...args) => get().x402Verify(...args),
    x402Settle: (...args) => get().x402Settle(...args),
    releasePayment: (...args) => get().releasePayment(...args),
    refundPayment: (...args) => get().refundPayment(...args),
    signsGrants: () => get().signsGrants(),
    reserves: async () => get().reserves(),
    knownToReserve: () => client?.knownToReserve() ?? false,
    proofSigners: () => get().proofSigners(),
    supported: async () => get().supported(),
    payment: (...args) => get().payment(...args),
    subscriptionsOf: (...args) => get().subscriptionsOf(...args),
  };
}

function claimsOf({ claims = ".turnpike" }: ProviderOptions): ClaimStore {
  if (typeof claims === "object") {
    if (typeof claims.grantKey === "function") return claims;
    throw new ConfigError("claims is a store without grantKey(): add it, as ClaimStore of turnpike/gate describes it");
  }
  return claims === "memory" ? memoryClaims() : fileClaims({ folder: claims });
}

/** The time that quotes and proofs are judged by: the chain's where it was ever read, the machine's otherwise. */
export interface GateTime extends Clock {
  /** Brings `nowSec` up to date; undefined when it is. Waits a bounded time. */
  refresh(): Promise<void> | undefined;
}

const MAX_WAIT_MS = 1_000;

export function fixedTime(clock: Clock): GateTime {
  return { nowSec: () => clock.nowSec(), refresh: () => undefined };
}

export function chainTime(clock: ChainClock, heads: HeadWatcher): GateTime {
  return {
    nowSec: () => (clock.head ? clock.nowSec() : systemClock.nowSec()),
    refresh() {
      if (heads.fresh()) return undefined;
      // In an outage the last known head and the time since it still serve: quotes need a time even then.
      const current = heads.current().then(ignored, ignored);
      return atMost(MAX_WAIT_MS, current, ignored);
    },
  };
}

const ignored = (): undefined => undefined;

interface GateFacilitator
  extends Pick<
    FacilitatorClient,
    | "verifyProof"
    | "x402Verify"
    | "x402Settle"
    | "releasePayment"
    | "refundPayment"
    | "payment"
    | "subscriptionsOf"
    | "supported"
  > {
  /** Returns whether it signs to which purchase a payment was granted. @throws Unavailable */
  signsGrants(): Promise<boolean>;
  /** Returns whether its verification reserves a payment's amount for a purchase. @throws Unavailable */
  reserves(): Promise<boolean>;
  /** Returns whether it is known to; asks nothing. */
  knownToReserve(): boolean;
  /** Returns the signers of its proofs, the current one first. @throws Unavailable */
  proofSigners(): Promise<readonly Address[]>;
}

export interface GateFacilitatorOptions {
  readonly url: string;
  /** of the gate: a Facilitator may settle on several chains */
  readonly chainId: number;
  /** how long the Facilitator may be silent */
  readonly waitMs: number;
  readonly fetch?: FetchLike | undefined;
  /** of calls that have a payment refunded */
  readonly refundsKey?: string | undefined;
  readonly tracing: Tracing | undefined;
}

/** An older Facilitator is asked again after this: it may be upgraded while the gate runs. */
const ASK_AGAIN_MS = 60_000;

/**
 * Makes the gate's calls to its Facilitator, each with its own bound. A call that moves no money ends after `waitMs`. A
 * settlement may wait for a block, so it ends early only when the Facilitator stops answering; its outcome is then
 * unknown, and the same payment can be presented again.
 */
function createGateFacilitator({
  url,
  chainId,
  waitMs,
  fetch: given,
  refundsKey,
  tracing,
}: GateFacilitatorOptions): GateFacilitator {
  const plain: FetchLike = given ?? ((input, init) => fetch(input, init));
  const send = tracing?.fetch(plain, facilitatorSpanName) ?? plain;
  const prompt = createFacilitatorClient({ url, fetch: send, timeoutMs: waitMs });
  const patient = createFacilitatorClient({ url, fetch: send });
  let asking: ReturnType<typeof prompt.supported> | undefined;
  /** All gates ask at their start: calls at one time share an answer. */
  const supported = async () => {
    asking ??= prompt.supported().finally(() => {
      asking = undefined;
    });
    return supportedOn(await asking, chainId);
  };
  const refunding = createFacilitatorClient({ url, fetch: send, ...(refundsKey && { apiKey: refundsKey }) });
  let signsGrants = false;
  let reserves = false;
  let reservesNotUntilMs = Number.NEGATIVE_INFINITY;
  return {
    async signsGrants() {
      signsGrants ||= (await supported()).paymentGrants === true;
      return signsGrants;
    },
    async reserves() {
      if (reserves || performance.now() < reservesNotUntilMs) return reserves;
      reserves = (await supported()).reservations === true;
      if (!reserves) reservesNotUntilMs = performance.now() + ASK_AGAIN_MS;
      return reserves;
    },
    knownToReserve: () => reserves,
    proofSigners: async () => (await supported()).proofSigners,
    supported,
    verifyProof: (...args) => prompt.verifyProof(...args),
    payment: (...args) => prompt.payment(...args),
    x402Verify: (...args) => prompt.x402Verify(...args),
    releasePayment: (...args) => prompt.releasePayment(...args),
    refundPayment: (...args) => refunding.refundPayment(...args),
    subscriptionsOf: (wallet, call) => prompt.subscriptionsOf(wallet, { network: caip2Of(chainId), ...call }),
    async x402Settle(request, { signal, trace } = {}) {
      const done = new AbortController();
      const silent = watchForSilence({ url, waitMs, send: plain, done: done.signal });
      try {
        return await patient.x402Settle(request, {
          signal: signal ? AbortSignal.any([signal, silent]) : silent,
          trace,
        });
      } finally {
        done.abort();
      }
    },
  };
}

interface Watch {
  readonly url: string;
  readonly waitMs: number;
  readonly send: FetchLike;
  readonly done: AbortSignal;
}

/** @returns a signal that aborts when a probe gets no answer of any kind */
function watchForSilence({ url, waitMs, send, done }: Watch): AbortSignal {
  const silent = new AbortController();
  const probe = async (): Promise<void> => {
    const deadline = new Deadline(waitMs, done);
    try {
      const response = await send(`${url}/healthz`, { method: "GET", redirect: "manual", signal: deadline.signal });
      await response.body?.cancel();
    } finally {
      deadline.end();
    }
  };
  const watch = async (): Promise<void> => {
    for (;;) {
      await sleep(waitMs, undefined, { signal: done, ref: false });
      await probe();
    }
  };
  watch().catch((cause: unknown) => {
    if (done.aborted) return;
    silent.abort(new Unavailable(`The Facilitator at ${url} does not answer; the outcome is unknown.`, { cause }));
  });
  return silent.signal;
}
