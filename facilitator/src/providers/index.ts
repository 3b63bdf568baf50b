/** Everything that providers do here, wired: keys, webhook endpoints, debits, what they may read. */
import type { ApiScope, EventList } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import { createDebits, type Debits } from "../debits";
import { type EventPage, listEvents, newestEvent } from "../feed";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import type { Store } from "../store/open";
import { type DeliveryPage, findDelivery, listDeliveries } from "../webhooks/delivery-log";
import { createWebhookEndpoints } from "../webhooks/endpoints";
import { type AuditPage, listActs } from "./audit";
import { type Caller, createKeys, type Keys, type Origin } from "./keys";

export type { Caller, Origin } from "./keys";

export interface ProvidersDeps {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly monotonicMs: () => number;
  /** unix milliseconds */
  readonly nowMs: () => number;
}

export type Providers = ReturnType<typeof createProviders>;

export function createProviders({ config, store, relayer, indexer, monotonicMs, nowMs }: ProvidersDeps) {
  const { network, chainId } = config;
  const facilitator = relayer.proofSigner.address;
  const { operators = [] } = config;
  const otherFacilitators = relayer.trustedSigners.list.flatMap(({ address, until }) =>
    address === facilitator || until !== undefined ? [] : [address],
  );
  const { chain } = relayer;
  const keys: Keys = createKeys({ store, network, facilitator, otherFacilitators, chain, operators, nowMs });
  const endpoints = createWebhookEndpoints({ store, network, allowPrivate: config.allowPrivateWebhooks, nowMs });
  const debits: Debits = createDebits({ config, store, relayer, indexer, monotonicMs });
  return {
    keys,
    endpoints,
    debits,
    admit: (authorization: string | null, scope: ApiScope | "any", origin: Origin): Promise<Caller> =>
      keys.authenticate(authorization, scope, origin),
    events: (page: EventPage): Promise<EventList> => listEvents(store.db, chainId, page),
    newestEvent: (): Promise<number> => newestEvent(store.db, chainId),
    acts: (provider: Address, page: AuditPage) => listActs(store.db, { chainId, provider }, page),
    deliveries: {
      async list(provider: Address, endpointId: string, page: DeliveryPage) {
        await endpoints.requireOwn(provider, endpointId);
        return listDeliveries(store.db, endpointId, page);
      },
      async find(provider: Address, endpointId: string, eventId: string) {
        await endpoints.requireOwn(provider, endpointId);
        return findDelivery(store.db, endpointId, eventId);
      },
    },
  };
}
