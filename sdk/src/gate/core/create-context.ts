/**
 * Creates what one provider's gates share: settings, terms, clock, claims, and access to the chain and the Facilitator.
 */
import { connectRpc, type Rpc } from "../../chain/rpc";
import { type Clock, ConfigError, systemClock, Unavailable } from "../../protocol";
import { Tracing } from "../../protocol/tracing";
import type { MeterPort } from "../metering/meter";
import type { ClaimStore } from "../purchases/record";
import { fileClaims, memoryClaims } from "../purchases/store";
import { followChain, openChain, timeOf } from "./chain-follower";
import type { GateContext, GateReports } from "./context";
import { createSupportSource } from "./facilitator-support";
import { createFacilitatorCheck, lazyFacilitator } from "./gate-facilitator";
import { createOfferReceiptIssuer } from "./offer-receipts";
import type { PaymentTarget, ProviderOptions } from "./options";
import { createRefundRequests } from "./refund-requests";
import { type Settings, settingsOf, type TargetSettings, targetSettings } from "./settings";
import { createTerms } from "./terms";
import { UsageReceiptIssuer } from "./usage-receipts";

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
