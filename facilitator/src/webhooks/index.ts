/** Webhooks: the worker of the role, wired to this process's clocks and network. */
import type { RoleContext } from "../app/start";
import type { Worker } from "../lib/loop";
import { createDeliveryWorker } from "./delivery";
import { forgetFinished, recordBeginnings } from "./outbox";
import { createSender } from "./send";

/** Between looks at the outbox without a hint. */
const POLL_MS = 1_000;

const TIDY_MS = 3_600_000;

const DAY_MS = 86_400_000;

export function startWebhooks({ config, store, wallClock, log, metrics }: RoleContext): Worker {
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
  const tidy = setInterval(() => {
    const beforeMs = wallClock.nowMs() - config.webhookLogDays * DAY_MS;
    forgetFinished(store, config.chainId, beforeMs).catch((error: unknown) => {
      log.warn({ error }, "old deliveries could not be forgotten");
    });
  }, TIDY_MS);
  tidy.unref();
  recordBeginnings(store, config.chainId).catch((error: unknown) => {
    log.warn({ error }, "where the webhook endpoints begin could not be recorded; the next start records it");
  });
  return {
    stop() {
      clearInterval(tidy);
      return worker.stop();
    },
  };
}
