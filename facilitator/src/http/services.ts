/** Wires the services of providers: keys, webhook endpoints, debits, figures. */
import type { Logger } from "pino";
import type { EventList, NoteRequest, Readiness, SupportedWire, System, TestClockState } from "turnpike/facilitator";
import type { Address, Network } from "turnpike/protocol";
import type { Analytics } from "../analytics";
import type { Costs } from "../analytics/costs";
import type { Reports } from "../analytics/reports";
import type { Owner } from "../db/owner";
import type { Catalogue } from "../discovery/catalogue";
import type { Listings } from "../discovery/listings";
import type { EventPage } from "../events/list";
import type { Payments } from "../payments";
import type { AuditPage, listActs } from "../providers/audit";
import type { Caller, KeyNeed, Keys, Origin } from "../providers/keys";
import type { Labels } from "../providers/labels";
import type { RefundAccounts } from "../providers/refund-accounts";
import type { Subscriptions } from "../subscriptions";
import type { Debits } from "../subscriptions/debits";
import type { Metrics } from "../telemetry/metrics";
import type { Tracing } from "../telemetry/tracing";
import type { DeliveryPage, deliveriesOf, findDelivery, listDeliveries } from "../webhooks/delivery-log";
import type { WebhookEndpoints } from "../webhooks/endpoints";
import type { RateLimit } from "./rate-limit";
import type { UntilEnd } from "./request";

export type { Caller, Origin } from "../providers/keys";

/** What a service on several chains adds to the services of each. */
export interface Deployment {
  /** in the order of `CHAINS` */
  readonly chainIds: readonly number[];
  /** @param network absent: of the whole service */
  readiness(network?: Network): Readiness;
  /** Returns the services of each chain that is up, in that order. */
  all(): readonly ApiServices[];
}

/** The services that the API uses, on one chain. */
export interface ApiServices {
  readonly network: Network;
  /** absent: this chain is the only one */
  readonly deployment?: Deployment;
  /** origin under which browsers reach this service */
  readonly publicUrl: string | undefined;
  readonly sandbox?: Sandbox;
  readonly payments: Payments;
  readonly subscriptions: Subscriptions;
  readonly providers: Providers;
  readonly catalogue: Catalogue;
  readonly analytics: Analytics;
  readonly reports: Reports;
  readonly costs: Pick<Costs, "of">;
  /** Waits for new events: resolves on a notification, or at the latest after the time. */
  happened(timeoutMs: number): Promise<unknown>;
  /** the key that settles `upto` payments; undefined while they are not offered */
  uptoSigner(): Address | undefined;
  readonly supported: Omit<SupportedWire, "kinds" | "extensions" | "signers" | "network" | "chainId">;
  /** @param network one of several chains; absent: of the whole service */
  readiness(network?: Network): Readiness;
  system(): Promise<System>;
  readonly metrics: Metrics;
  /** absent: nothing is traced */
  readonly tracing: Tracing | undefined;
  /** whether `GET /metrics` is served here, and not on a port of its own */
  readonly servesMetrics: boolean;
  readonly log: Logger;
  readonly rateLimit: RateLimit;
  readonly keyLimit: RateLimit;
  /** how long a request may wait for the chain to confirm */
  readonly authorizeWaitMs: number;
  readonly monotonicMs: () => number;
  /** Waits for work that continues without its caller, unless the service is stopping. */
  untilDraining<T>(work: Promise<T>): Promise<T | "draining">;
  readonly untilEnd: UntilEnd;
}

/** What a provider manages and reads. */
export interface Providers {
  readonly keys: Keys;
  readonly endpoints: WebhookEndpoints;
  readonly labels: Labels;
  readonly listings: Listings;
  readonly debits: Debits;
  readonly refundAccounts: RefundAccounts;
  /** @returns the caller. @throws TurnpikeError when the key is not valid or lacks the scope */
  admit(authorization: string | null, need: KeyNeed, origin: Origin): Promise<Caller>;
  events(page: EventPage): Promise<EventList>;
  /** Returns the cursor after which only new events follow. */
  newestEvents(owner: Owner): Promise<string>;
  acts(owner: Owner, page: AuditPage): ReturnType<typeof listActs>;
  note(caller: Caller, act: NoteRequest): Promise<void>;
  readonly deliveries: {
    list(owner: Owner, endpointId: string, page: DeliveryPage): ReturnType<typeof listDeliveries>;
    find(owner: Owner, endpointId: string, eventId: string): ReturnType<typeof findDelivery>;
    of(owner: Owner, eventIds: readonly string[]): ReturnType<typeof deliveriesOf>;
  };
}

/**
 * Options of a program that embeds this service as a sandbox: a movable clock, and a key for anyone who opens the page.
 * No environment variable enables it, so no deployed service has it.
 */
export interface Sandbox {
  /** an API key of the sandbox's provider, worthless elsewhere */
  providerKey(): string;
  clock(): Promise<TestClockState>;
  /**
   * Starts to move the clock; everything that becomes due on the way is processed.
   * @returns false when it is moving already
   */
  advance(by: { readonly seconds: number } | { readonly to: "next-renewal" }): Promise<boolean>;
}
