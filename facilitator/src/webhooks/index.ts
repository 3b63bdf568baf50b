import type { Logger } from "pino";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { SharedClock } from "../db/shared-clock";
import type { Worker } from "../lib/loop";
import type { Metrics } from "../telemetry/metrics";
import { createDeliveryWorker } from "./delivery";
import { recordBeginnings } from "./outbox";
import { createSender } from "./send";

export interface WebhooksContext {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly wallClock: Pick<SharedClock, "nowMs">;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Interval between queries of the outbox without a notification. */
const POLL_MS = 1_000;

export function startWebhooks({ config, store, wallClock, log, metrics }: WebhooksContext): Worker {
  const worker = createDeliveryWorker({
    store,
    network: config.network,
    sender: createSender({ allowPrivate: config.allowPrivateWebhooks }),
    log,
    metrics,
    inFlight: config.webhooksInFlight,
    pollMs: POLL_MS,
    nowMs: wallClock.nowMs,
    monotonicMs: () => performance.now(),
    random: Math.random,
  });
  recordBeginnings(store, config.chainId).catch((error: unknown) => {
    log.warn({ error }, "the first events of webhook endpoints could not be recorded; the next start records them");
  });
  return worker;
}
