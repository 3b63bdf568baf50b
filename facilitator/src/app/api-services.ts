import type { Logger } from "pino";
import type { SupportedWire } from "turnpike/facilitator";
import type { TrustedSigners } from "turnpike/protocol";
import { createAnalytics } from "../analytics";
import { createCosts } from "../analytics/costs";
import { createReports } from "../analytics/reports";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { Catalogue } from "../discovery/catalogue";
import { Listings } from "../discovery/listings";
import { listEvents, newestEvent } from "../events/list";
import { createRateLimit } from "../http/rate-limit";
import type { ApiServices, Providers, Sandbox } from "../http/services";
import type { Indexer } from "../indexer";
import { listActs } from "../providers/audit";
import { createKeys } from "../providers/keys";
import { createRefundAccounts } from "../providers/refund-accounts";
import type { Relayer } from "../relayer";
import { createSubscriptions } from "../subscriptions";
import { createDebits } from "../subscriptions/debits";
import type { Metrics } from "../telemetry/metrics";
import type { Tracing } from "../telemetry/tracing";
import { findDelivery, listDeliveries } from "../webhooks/delivery-log";
import { createWebhookEndpoints } from "../webhooks/endpoints";
import type { Core } from "./core";
import { readinessOf } from "./readiness";
import { systemOf } from "./system";

export interface ProvidersDeps {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly monotonicMs: () => number;
  /** unix milliseconds */
  readonly nowMs: () => number;
}

export function createProviders({ config, store, relayer, indexer, monotonicMs, nowMs }: ProvidersDeps): Providers {
  const { network, chainId } = config;
  const facilitator = relayer.proofSigner.address;
  const { operators = [] } = config;
  const otherFacilitators = relayer.trustedSigners.list.flatMap(({ address, until }) =>
    address === facilitator || until !== undefined ? [] : [address],
  );
  const { chain } = relayer;
  const keys = createKeys({ store, network, facilitator, otherFacilitators, chain, operators, nowMs });
  const endpoints = createWebhookEndpoints({ store, network, allowPrivate: config.allowPrivateWebhooks, nowMs });
  const { allowPrivateListings: allowPrivate, listingsPerProvider: perProvider } = config;
  const listings = new Listings({ store, chainId, allowPrivate, perProvider, nowMs });
  const refundAccounts = createRefundAccounts({
    ...{ config, store, chain, facilitators: [facilitator, ...otherFacilitators] },
    signerOf: (provider) => relayer.refundSigner(provider),
    nowSec: () => indexer.clock.nowSec(),
  });
  const debits = createDebits({ config, store, relayer, indexer, monotonicMs });
  return {
    keys,
    endpoints,
    listings,
    debits,
    refundAccounts,
    admit: (authorization, scope, origin) => keys.authenticate(authorization, scope, origin),
    events: (page) => listEvents(store.db, chainId, page),
    newestEvent: () => newestEvent(store.db, chainId),
    acts: (provider, page) => listActs(store.db, { chainId, provider }, page),
    deliveries: {
      async list(provider, endpointId, page) {
        await endpoints.requireOwn(provider, endpointId);
        return listDeliveries(store.db, endpointId, page);
      },
      async find(provider, endpointId, eventId) {
        await endpoints.requireOwn(provider, endpointId);
        return findDelivery(store.db, endpointId, eventId);
      },
    },
  };
}

interface Wiring {
  readonly core: Core;
  readonly metrics: Metrics;
  readonly tracing: Tracing | undefined;
  readonly log: Logger;
  readonly drain: Drain;
  readonly sandbox: Sandbox | undefined;
}

export function buildApiServices({ core, metrics, tracing, log, drain, sandbox }: Wiring): ApiServices {
  const { config, store, relayer, indexer, payments, wallClock } = core;
  const { clock } = indexer;
  const monotonicMs = () => performance.now();
  const costs = createCosts(store.db, config.chainId, config.nativePrice);
  return {
    network: config.network,
    publicUrl: config.publicUrl,
    ...(sandbox && { sandbox }),
    payments,
    subscriptions: createSubscriptions({ config, store, relayer, indexer, clock, monotonicMs }),
    providers: createProviders({ config, store, relayer, indexer, monotonicMs, nowMs: wallClock.nowMs }),
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
      ...(config.permit2 && { transferMethods: ["eip3009", "permit2"] }),
      get relayers() {
        return [...relayer.addresses];
      },
      tokens: config.tokens.map(({ minAmount, largeAmount: _, ...token }) => ({
        ...token,
        minAmount: minAmount.toString(),
      })),
    },
    readiness: () => readinessOf(core),
    system: () => systemOf(core, costs),
    metrics,
    tracing,
    servesMetrics: config.metricsPort === undefined,
    log,
    rateLimit: createRateLimit(config.requestsPerMinute, monotonicMs),
    keyLimit: createRateLimit(config.keyRequestsPerMinute, monotonicMs),
    authorizeWaitMs: config.authorizeWaitMs,
    monotonicMs,
    untilDraining: drain.until,
    untilEnd: drain.untilEnd,
  };
}

export interface Drain {
  /** The service is stopping: requests that wait for an outcome are answered with what is known. */
  begin(): void;
  until<T>(work: Promise<T>): Promise<T | "draining">;
  /** Connections are about to be cut: requests without a response get an error that the service is stopping. */
  end(): void;
  /** @throws Unavailable at the end */
  untilEnd<T extends object>(work: Promise<T>): Promise<T>;
}

function supportedSigners({ list }: TrustedSigners): Pick<SupportedWire, "proofSigners" | "retiredProofSigners"> {
  return {
    proofSigners: list.flatMap(({ address, until }) => (until === undefined ? [address] : [])),
    retiredProofSigners: list.flatMap(({ address, until }) => (until === undefined ? [] : [{ address, until }])),
  };
}
