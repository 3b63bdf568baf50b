import type { Logger } from "pino";
import type { SupportedWire } from "turnpike/facilitator";
import type { TrustedSigners } from "turnpike/protocol";
import { createAnalytics } from "../analytics";
import { createCosts } from "../analytics/costs";
import { createReports } from "../analytics/reports";
import type { FacilitatorConfig } from "../config";
import { EXPLORERS } from "../config/explorers";
import type { Store } from "../db/open";
import { Catalogue } from "../discovery/catalogue";
import { Listings } from "../discovery/listings";
import { listEvents, newestEvents } from "../events/list";
import { createRateLimit } from "../http/rate-limit";
import type { ApiServices, Deployment, Providers, Sandbox } from "../http/services";
import type { Indexer } from "../indexer";
import { listActs, noteAct } from "../providers/audit";
import { createKeys } from "../providers/keys";
import { createLabels } from "../providers/labels";
import { createRefundAccounts } from "../providers/refund-accounts";
import type { Relayer } from "../relayer";
import { createSubscriptions } from "../subscriptions";
import { createDebits } from "../subscriptions/debits";
import type { Metrics } from "../telemetry/metrics";
import type { Tracing } from "../telemetry/tracing";
import { deliveriesOf, findDelivery, listDeliveries } from "../webhooks/delivery-log";
import { createWebhookEndpoints } from "../webhooks/endpoints";
import type { Core } from "./core";
import type { Drain } from "./drain";
import { readinessOf } from "./readiness";
import { systemOf } from "./system";

export interface ProvidersDeps {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly chainIds: readonly number[];
  readonly monotonicMs: () => number;
  /** unix milliseconds */
  readonly nowMs: () => number;
}

export function createProviders(deps: ProvidersDeps): Providers {
  const { config, store, relayer, indexer, chainIds, monotonicMs, nowMs } = deps;
  const { network, chainId } = config;
  const facilitator = relayer.proofSigner.address;
  const { operators = [] } = config;
  const otherFacilitators = relayer.trustedSigners.list.flatMap(({ address, until }) =>
    address === facilitator || until !== undefined ? [] : [address],
  );
  const { chain } = relayer;
  const keys = createKeys({ store, network, chainIds, facilitator, otherFacilitators, chain, operators, nowMs });
  const endpoints = createWebhookEndpoints({ store, network, allowPrivate: config.allowPrivateWebhooks, nowMs });
  const { allowPrivateListings: allowPrivate, listingsPerProvider: perProvider } = config;
  const listings = new Listings({ store, chainId, allowPrivate, perProvider, nowMs });
  const refundAccounts = createRefundAccounts({
    config,
    store,
    chain,
    facilitators: [facilitator, ...otherFacilitators],
    signerOf: (provider) => relayer.refundSigner(provider),
    nowSec: () => indexer.clock.nowSec(),
  });
  const debits = createDebits({ config, store, relayer, indexer, monotonicMs });
  return {
    keys,
    endpoints,
    labels: createLabels(store, chainId),
    listings,
    debits,
    refundAccounts,
    admit: (authorization, need, origin) => keys.authenticate(authorization, need, origin),
    events: (page) => listEvents(store.db, page),
    newestEvents: (owner) => newestEvents(store.db, owner.chainIds),
    acts: (owner, page) => listActs(store.db, owner, page),
    note: (caller, act) => noteAct(store.db, network.chainId, caller, act),
    deliveries: {
      async list(owner, endpointId, page) {
        await endpoints.requireOwn(owner, endpointId);
        return listDeliveries(store.db, endpointId, page);
      },
      async find(owner, endpointId, eventId) {
        await endpoints.requireOwn(owner, endpointId);
        return findDelivery(store.db, endpointId, eventId);
      },
      of: (owner, eventIds) => deliveriesOf(store.db, owner, eventIds),
    },
  };
}

export type Limits = Pick<ApiServices, "rateLimit" | "keyLimit">;

const monotonicMs = (): number => performance.now();

export function createLimits({ requestsPerMinute, keyRequestsPerMinute }: FacilitatorConfig): Limits {
  return {
    rateLimit: createRateLimit(requestsPerMinute, monotonicMs),
    keyLimit: createRateLimit(keyRequestsPerMinute, monotonicMs),
  };
}

interface Wiring {
  readonly core: Core;
  readonly metrics: Metrics;
  readonly tracing: Tracing | undefined;
  readonly log: Logger;
  readonly drain: Drain;
  readonly sandbox: Sandbox | undefined;
  readonly limits: Limits;
  /** absent: this chain is the only one */
  readonly deployment?: Deployment;
}

export function buildApiServices(wiring: Wiring): ApiServices {
  const { core, metrics, tracing, log, drain, sandbox, limits, deployment } = wiring;
  const { config, store, relayer, indexer, payments, wallClock } = core;
  const { clock } = indexer;
  const { chainIds = [config.chainId] } = deployment ?? {};
  const costs = createCosts(store.db, config.chainId, config.nativePrice);
  const { explorerUrl: explorer = EXPLORERS[config.network.name] } = config;
  return {
    network: config.network,
    ...(deployment && { deployment }),
    publicUrl: config.publicUrl,
    ...(sandbox && { sandbox }),
    payments,
    subscriptions: createSubscriptions({ config, store, relayer, indexer, clock, monotonicMs }),
    providers: createProviders({ config, store, relayer, indexer, chainIds, monotonicMs, nowMs: wallClock.nowMs }),
    catalogue: new Catalogue({ store, network: config.network, nowMs: wallClock.nowMs }),
    costs,
    analytics: createAnalytics({ db: store.db, config, clock }),
    reports: createReports({ store, config, clock }),
    happened: (timeoutMs) => store.notifier.wait("events", timeoutMs),
    uptoSigner: () => (relayer.addresses.some((key) => key === config.uptoSigner) ? config.uptoSigner : undefined),
    supported: {
      turnpike: config.turnpike,
      batchSettler: config.batchSettler,
      ...supportedSigners(relayer.trustedSigners),
      ...(explorer !== undefined && { explorer }),
      ...(config.permit2 && { transferMethods: ["eip3009", "permit2"] }),
      get relayers() {
        return [...relayer.addresses];
      },
      tokens: config.tokens.map(({ minAmount, largeAmount: _, ...token }) => ({
        ...token,
        minAmount: minAmount.toString(),
      })),
    },
    readiness: (network) => (deployment ? deployment.readiness(network) : readinessOf(core, network)),
    system: () => systemOf(core, costs),
    metrics,
    tracing,
    servesMetrics: config.metricsPort === undefined,
    log,
    ...limits,
    authorizeWaitMs: config.authorizeWaitMs,
    monotonicMs,
    untilDraining: drain.until,
    untilEnd: drain.untilEnd,
  };
}

function supportedSigners({ list }: TrustedSigners): Pick<SupportedWire, "proofSigners" | "retiredProofSigners"> {
  return {
    proofSigners: list.flatMap(({ address, until }) => (until === undefined ? [address] : [])),
    retiredProofSigners: list.flatMap(({ address, until }) => (until === undefined ? [] : [{ address, until }])),
  };
}
