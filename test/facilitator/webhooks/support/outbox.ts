/** An outbox on a PostgreSQL database of its own, with endpoints, events and workers whose clock the test turns. */
import { randomBytes } from "node:crypto";
import pino from "pino";
import { type Address, addressOfKey, type Hex, keccakText, networkOfChain, toHex } from "turnpike/protocol";
import { createEventFeed } from "../../../../facilitator/src/app/projections";
import { Secret } from "../../../../facilitator/src/config/setting";
import { openStore, type Store } from "../../../../facilitator/src/db/open";
import type { EventDraft } from "../../../../facilitator/src/events/event";
import { createMetrics } from "../../../../facilitator/src/telemetry/metrics";
import { createDeliveryWorker, type DeliveryWorker } from "../../../../facilitator/src/webhooks/delivery";
import { createWebhookEndpoints } from "../../../../facilitator/src/webhooks/endpoints";
import { createSender, type Sender } from "../../../../facilitator/src/webhooks/send";

export const CHAIN_ID = 31_337;
export const feed = createEventFeed(CHAIN_ID);
export const NETWORK = networkOfChain(CHAIN_ID);
export const PROVIDER = addressOfKey(keccakText("provider of webhooks"));

export interface Clock {
  nowMs: number;
}

export interface Outbox {
  readonly store: Store;
  readonly clock: Clock;
  readonly endpoints: ReturnType<typeof createWebhookEndpoints>;
  /** @returns the ids, in order */
  emit(events: readonly Partial<EventDraft>[]): Promise<string[]>;
  endpoint(url: string, more?: { types?: string[]; provider?: Address }): Promise<{ id: string; secret: string }>;
  worker(more?: { sender?: Sender; timeoutMs?: number; inFlight?: number; random?: () => number }): DeliveryWorker;
  /** ticks until nothing is due and nothing under way */
  drain(worker: DeliveryWorker): Promise<void>;
  deliveries(endpointId: string): Promise<{ event_id: string; state: string; attempts: number; due_at_ms: number }[]>;
  close(): Promise<void>;
}

export const actorOf = (provider: Address) => ({
  provider,
  isEveryChain: true,
  chainIds: [CHAIN_ID],
  keyId: "test-key",
  address: "127.0.0.1",
  requestId: "r",
});

export function planPayload(provider: Address): Record<string, unknown> {
  const planId = keccakText("a plan");
  return {
    planId,
    provider,
    token: provider,
    amount: "1000000",
    interval: 86_400,
    grace: 0,
    payTo: provider,
    period: { unit: "second", count: 86_400 },
    proposedPayTo: null,
    metadata: "{}",
    deprecated: false,
    stopped: false,
    successor: null,
  };
}

export async function openOutbox(url: string): Promise<Outbox> {
  const store = await openStore({ kind: "postgres", url: new Secret(url), poolSize: 6 });
  // Deliveries are queued by the database's clock: they are due at once, however long a test has run.
  const clock = { nowMs: Date.now() + 300_000 };
  const nowMs = () => clock.nowMs;
  const endpoints = createWebhookEndpoints({ store, network: NETWORK, allowPrivate: true, nowMs });
  const workers: DeliveryWorker[] = [];
  return {
    store,
    clock,
    endpoints,
    async emit(events) {
      const drafts = events.map((event): EventDraft => {
        const provider = event.provider ?? PROVIDER;
        const id = toHex(randomBytes(32));
        const payload = planPayload(provider as Address);
        const objectId = String(payload.planId) as Hex;
        return { id, chainId: CHAIN_ID, type: "plan.created", objectId, provider, payload, blockTime: 1_000, ...event };
      });
      await store.transaction((tx) => feed.append(tx, drafts));
      return drafts.map(({ id }) => id);
    },
    async endpoint(endpointUrl, { types, provider = PROVIDER } = {}) {
      return endpoints.create(actorOf(provider), { url: endpointUrl, description: "", ...(types && { types }) });
    },
    worker({ timeoutMs = 2_000, sender = createSender({ allowPrivate: true, timeoutMs }), ...more } = {}) {
      const worker = createDeliveryWorker({
        store,
        network: NETWORK,
        sender,
        log: pino({ level: "silent" }),
        metrics: createMetrics(),
        inFlight: 16,
        pollMs: 3_600_000,
        nowMs,
        monotonicMs: () => performance.now(),
        random: () => 0.5,
        ...more,
      });
      workers.push(worker);
      return worker;
    },
    async drain(worker) {
      // The worker's own loop claims too: nothing may be under way after a look that found nothing.
      do await worker.settled();
      while ((await worker.tick()) > 0 || worker.underWay > 0);
    },
    deliveries: (endpointId) =>
      store.db
        .selectFrom("webhook_deliveries")
        .select(["event_id", "state", "attempts", "due_at_ms"])
        .where("endpoint_id", "=", endpointId)
        .orderBy("seq")
        .execute(),
    async close() {
      for (const worker of workers) await worker.stop();
      await store.close();
    },
  };
}
