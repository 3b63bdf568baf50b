/**
 * Creates the contexts of entries that differ from the provider's own settings: another network, token, payee or
 * Facilitator.
 */
import { openChain } from "./chain-follower";
import { createFacilitatorCheck } from "./check-facilitator";
import type { GateContext } from "./context";
import { createSupportSource } from "./facilitator-support";
import { lazyFacilitator } from "./gate-facilitator";
import type { PaymentTarget, ProviderOptions } from "./options";
import { createRefundRequests } from "./refund-requests";
import { type Settings, type TargetSettings, targetSettings } from "./settings";
import { createTerms } from "./terms";

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
