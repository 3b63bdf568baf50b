/** Webhooks: the worker of the role, wired to this process's clocks and network. */
import type { RoleContext, Worker } from "../roles";
import { createDeliveryWorker } from "./delivery";
import { createSender } from "./send";

/** Between looks at the outbox without a hint. */
const POLL_MS = 1_000;

export function startWebhooks({ config, store, log, metrics }: RoleContext): Worker {
  const worker = createDeliveryWorker({
    store,
    network: config.network,
    sender: createSender({ allowPrivate: config.allowPrivateWebhooks }),
    log,
    metrics,
    inFlight: config.webhooksInFlight,
    pollMs: POLL_MS,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    random: Math.random,
  });
  return { stop: () => worker.stop() };
}
