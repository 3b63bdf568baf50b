/**
 * Delivers the outbox at least once: claims due deliveries, sends them, records the outcome. A claim is a lease, so
 * another process retries the deliveries of one that died. Knows no event and no chain.
 */
import type { Logger } from "pino";
import { type Network, TurnpikeError } from "turnpike/protocol";
import { LEASE_MS, renewEvery } from "../db/leases";
import type { Store } from "../db/open";
import { repeat } from "../lib/loop";
import { createNotifier } from "../lib/notifier";
import { createFaultLog } from "../telemetry/fault-log";
import type { Metrics } from "../telemetry/metrics";
import { giveUpOld } from "./give-up";
import { bodyOf, headersOf } from "./message";
import {
  type AttemptFacts,
  type Conclusion,
  claimDeliveries,
  concludeAttempt,
  type Delivery,
  extendLeases,
  isAnythingDue,
} from "./outbox";
import { GIVE_UP_SEC, nextAttempt } from "./schedule";
import type { Sender, SendResult } from "./send";

/** Called after each step completes; a test kills the process there and checks how the next one recovers. */
export const DELIVERY_STEPS = ["claimed", "sent"] as const;

export type DeliveryStep = (typeof DELIVERY_STEPS)[number];

export interface DeliveryDeps {
  readonly store: Store;
  readonly network: Network;
  readonly sender: Sender;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "webhooks" | "stageTook">;
  readonly inFlight: number;
  readonly pollMs: number;
  /** unix milliseconds */
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
  /** from 0 to 1 */
  readonly random: () => number;
  readonly onStep?: (step: DeliveryStep) => void;
}

export interface DeliveryWorker {
  /** Claims due deliveries and starts to send them. @returns how many */
  tick(): Promise<number>;
  /** Resolves when no started delivery is in flight. */
  settled(): Promise<void>;
  readonly underWay: number;
  stop(): Promise<void>;
}

/**
 * Concurrent deliveries of one endpoint. A failing endpoint gets one; all failing ones share a quarter of the slots.
 */
const SHARE = 8;

const FAILING_PART = 4;

/** An endpoint that makes an attempt last rests for a multiple of it: the others that fail get their turns. */
const SLOW_MS = 1_000;

const REST = 3;

const GIVE_UP_EVERY_MS = 60_000;

const DRAIN_MS = 5_000;

/** Delay before a delivery is checked again whose event is being rebuilt. */
const WITHOUT_EVENT_MS = 30_000;

export function createDeliveryWorker(deps: DeliveryDeps): DeliveryWorker {
  const { store, network, sender, log, metrics, nowMs, monotonicMs, random, onStep = () => undefined } = deps;
  const { chainId } = network;
  const faults = createFaultLog({ log, monotonicMs });
  const underWay = new Map<Promise<void>, Started>();
  const restingUntilMs = new Map<string, number>();
  let gaveUpAtMs = Number.NEGATIVE_INFINITY;
  const stopping = new AbortController();
  const freed = createNotifier();

  /** Serializes claims: two at once would each take all the free slots. */
  let last: Promise<number> = Promise.resolve(0);
  function tick(): Promise<number> {
    last = last.catch(() => 0).then(claimDue);
    return last;
  }

  async function claimDue(): Promise<number> {
    if (stopping.signal.aborted || !(await isAnythingDue(store.db, chainId, nowMs()))) return 0;
    await giveUp();
    return (await claim("healthy")) + (await claim("failing"));
  }

  async function giveUp(): Promise<void> {
    if (monotonicMs() - gaveUpAtMs < GIVE_UP_EVERY_MS) return;
    gaveUpAtMs = monotonicMs();
    const count = await giveUpOld(store.db, chainId, { nowMs: nowMs(), ageMs: 1_000 * GIVE_UP_SEC });
    if (count === 0) return;
    metrics.webhooks.inc({ outcome: "exhausted" }, count);
    log.warn({ count }, "webhooks were given up by the age of their events");
  }

  function resting(): string[] {
    const now = monotonicMs();
    for (const [id, untilMs] of restingUntilMs) if (untilMs <= now) restingUntilMs.delete(id);
    return [...restingUntilMs.keys()];
  }

  async function claim(endpoints: Started["endpoints"]): Promise<number> {
    const all = [...underWay.values()];
    const failing = all.filter((one) => one.endpoints === "failing").length;
    const free = deps.inFlight - all.length;
    const limit = endpoints === "healthy" ? free : Math.min(free, Math.ceil(deps.inFlight / FAILING_PART) - failing);
    if (limit <= 0) return 0;
    const share = endpoints === "healthy" ? SHARE : 1;
    const perEndpoint = new Map<string, number>();
    for (const { endpointId } of all) perEndpoint.set(endpointId, (perEndpoint.get(endpointId) ?? 0) + 1);
    const busy = [...perEndpoint].filter(([, count]) => count >= share).map(([id]) => id);
    if (endpoints === "failing") busy.push(...resting());
    const claimed = await claimDeliveries(store.db, {
      chainId,
      nowMs: nowMs(),
      leaseMs: LEASE_MS,
      limit,
      share,
      endpoints,
      busy,
    });
    for (const delivery of claimed) begin(delivery, endpoints);
    if (claimed.length > 0) onStep("claimed");
    return claimed.length;
  }

  function begin(delivery: Delivery, endpoints: Started["endpoints"]): void {
    const work = deliver(delivery)
      .catch((error: unknown) => {
        // The lease expires by itself, and the delivery is retried.
        const place = { endpoint: delivery.endpointId, event: delivery.eventId };
        faults.met("delivery", error, "a delivery could not be recorded", place);
      })
      .finally(() => {
        underWay.delete(work);
        freed.notify("place");
      });
    underWay.set(work, { ...delivery, endpoints });
  }

  async function deliver(delivery: Delivery): Promise<void> {
    const { eventId, attempts, secrets } = delivery;
    const body = delivery.body ?? (delivery.event && bodyOf(delivery.event, network));
    if (body === undefined || secrets.length === 0) return postpone(deps, delivery);
    const attemptMs = nowMs();
    const startedMs = monotonicMs();
    const headers = headersOf({ id: eventId, body, nowMs: attemptMs, attempt: attempts + 1, secrets });
    const result = await sender.send({ url: delivery.url, headers, body, signal: stopping.signal });
    onStep("sent");
    const durationMs = Math.round(monotonicMs() - startedMs);
    const conclusion = conclusionOf(delivery, result, nowMs(), random());
    if (conclusion.kind !== "delivered" && durationMs >= SLOW_MS)
      restingUntilMs.set(delivery.endpointId, monotonicMs() + REST * durationMs);
    await concludeAttempt(store, { ...delivery, chainId }, conclusion, factsOf(result, attemptMs, durationMs));
    if (conclusion.kind === "released") return;
    metrics.webhooks.inc({ outcome: conclusion.kind });
    if (attempts === 0) metrics.stageTook("notify", attemptMs - delivery.createdAtMs);
    const fields = { endpoint: delivery.endpointId, event: eventId, ...subjectOf(delivery) };
    const attempt = { attempt: attempts + 1, durationMs, outcome: conclusion.kind, ...outcomeOf(result) };
    log.info({ ...fields, ...attempt }, "webhook");
  }

  const settled = async (): Promise<void> => {
    while (underWay.size > 0) await Promise.all([...underWay.keys()]);
  };

  const loop = repeat(
    async () => {
      try {
        while ((await tick()) > 0);
        faults.recovered("round");
      } catch (error) {
        faults.met("round", error, "webhooks pause");
      }
    },
    () => Promise.race([store.notifier.wait("events", deps.pollMs), freed.wait("place", deps.pollMs)]),
  );

  const renewing = renewEvery(LEASE_MS, async () => {
    if (underWay.size > 0) await extendLeases(store.leases, [...underWay.values()], nowMs() + LEASE_MS);
  });

  return {
    tick,
    settled,
    get underWay() {
      return underWay.size;
    },
    async stop() {
      const stopped = loop.stop();
      freed.close();
      // A request in flight may finish; afterwards the delivery is left to the next process.
      const cut = setTimeout(() => stopping.abort(new TurnpikeError("Unavailable")), DRAIN_MS);
      await stopped;
      await settled();
      clearTimeout(cut);
      await renewing.stop();
      await sender.close();
    },
  };
}

/** Leaves a delivery for later whose event or secret is missing. */
async function postpone(
  { store, log, nowMs }: Pick<DeliveryDeps, "store" | "log" | "nowMs">,
  { endpointId, eventId }: Delivery,
): Promise<void> {
  log.warn({ endpoint: endpointId, event: eventId }, "a delivery waits: its event is missing");
  await store.db
    .updateTable("webhook_deliveries")
    .set({ lease_until_ms: 0, due_at_ms: nowMs() + WITHOUT_EVENT_MS })
    .where("endpoint_id", "=", endpointId)
    .where("event_id", "=", eventId)
    .execute();
}

interface Started extends Pick<Delivery, "endpointId" | "eventId" | "attempts"> {
  readonly endpoints: "healthy" | "failing";
}

const GONE = 410;

/** The type of the delivered event, and the ids that the log knows its payment by. */
function subjectOf({ event }: Delivery): Record<string, unknown> {
  if (!event) return {};
  const { type, object_id: id, payload } = event;
  if (type.startsWith("payment.")) return { type, paymentId: id };
  return type.startsWith("refund.") ? { type, paymentId: payload.refundedId, refundId: id } : { type };
}

function conclusionOf({ step, createdAtMs }: Delivery, result: SendResult, nowMs: number, random: number): Conclusion {
  if (result.kind === "aborted") return { kind: "released" };
  if (result.kind === "answered") {
    if (result.statusCode >= 200 && result.statusCode < 300) return { kind: "delivered" };
    if (result.statusCode === GONE) return { kind: "gone" };
  }
  const retryAfterSec = result.kind === "answered" ? result.retryAfterSec : undefined;
  const dueAtMs = nextAttempt({ step, nowMs, createdAtMs, random, retryAfterSec });
  return dueAtMs === undefined ? { kind: "exhausted" } : { kind: "retry", dueAtMs };
}

function factsOf(result: SendResult, nowMs: number, durationMs: number): AttemptFacts {
  return { nowMs, durationMs, ...outcomeOf(result) };
}

function outcomeOf(result: SendResult): Pick<AttemptFacts, "statusCode" | "error"> {
  if (result.kind === "answered") return { statusCode: result.statusCode };
  return result.kind === "failed" ? { error: result.error } : {};
}
