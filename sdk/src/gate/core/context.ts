/**
 * Creates what one provider's gates share: settings, terms, clock, claims, access to the chain and the Facilitator, and what
 * reports a gate's decisions.
 */
import { connectRpc, type Rpc } from "../../chain/rpc";
import type { StateReader } from "../../chain/states";
import type { Subscription } from "../../facilitator/subscriptions";
import { type Address, type Clock, ConfigError, systemClock, type TurnpikeError, Unavailable } from "../../protocol";
import { Tracing } from "../../protocol/tracing";
import type { MeterPort } from "../metering/meter";
import type { ClaimStore } from "../purchases/record";
import { fileClaims, memoryClaims } from "../purchases/store";
import type { Decision } from "./answer";
import { followChain, type GateTime, openChain, timeOf } from "./chain-follower";
import { createSupportSource, type SupportSource } from "./facilitator-support";
import {
  createFacilitatorCheck,
  type FacilitatorCheck,
  type GateFacilitator,
  lazyFacilitator,
} from "./gate-facilitator";
import { createOfferReceiptIssuer, type OfferReceiptIssuer } from "./offer-receipts";
import type { PaymentTarget, ProviderOptions } from "./options";
import { createRefundRequests, type RefundRequests } from "./payment";
import type { GateRequest } from "./request";
import { type Settings, settingsOf, type TargetSettings, targetSettings } from "./settings";
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

/** What payments of one target are judged by. */
export interface TargetContext {
  readonly settings: Settings;
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
}

/** What is the provider's own, whatever the target. */
export interface ProviderContext {
  /** absent: nothing is traced */
  readonly tracing: Tracing | undefined;
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

/** What one gate decides by: one target of one provider. */
export interface GateContext extends TargetContext, ProviderContext {}

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

/** @throws ConfigError naming the setting */
export function createGateContext(options: ProviderOptions, parts: GateContextParts): GateContext {
  const settings = settingsOf(options, process.env.NODE_ENV === "production");
  const { chainId } = settings.network;
  const rpc =
    options.rpc ?? (settings.rpcUrls.length > 0 ? connectRpc({ urls: settings.rpcUrls, chainId }) : undefined);
  const terms = createTerms(settings, rpc);
  const followed = rpc && followChain({ rpc, settings, terms, options });
  const time = timeOf(options, followed);
  let claims: ClaimStore | undefined;
  let starting: Promise<void> | undefined;
  let isMeterOpen = false;
  const tracing = options.openTelemetry && new Tracing(options.openTelemetry);
  const facilitator = lazyFacilitator(settings, options, tracing);
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

export function claimsOf({ claims = ".turnpike" }: ProviderOptions): ClaimStore {
  if (typeof claims === "object") return claims;
  return claims === "memory" ? memoryClaims() : fileClaims({ folder: claims });
}

/** The contexts of entries that differ from the provider's own settings, each made once. */
export function createTargetContexts(provider: () => GateContext, options: ProviderOptions) {
  const contexts = new Map<string, GateContext>();
  const chains = new Map<string, Pick<GateContext, "rpc" | "time"> & { readonly stop: () => void }>();

  function chainOf({ network, rpcUrls }: TargetSettings): Pick<GateContext, "rpc" | "time"> {
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

function targetKeyOf({ network, token, payTo, facilitator, rpcUrls }: TargetSettings): string {
  const { url, signers, trustUnsigned, refundsKey } = facilitator ?? {};
  return JSON.stringify([network.chainId, token, payTo, url, signers?.list, trustUnsigned, refundsKey, rpcUrls]);
}

function targetContext(
  base: GateContext,
  settings: Settings,
  { rpc, time }: Pick<GateContext, "rpc" | "time">,
  options: ProviderOptions,
): GateContext {
  const { tracing } = base;
  const facilitator = lazyFacilitator(settings, options, tracing);
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
