/** A process that delivers webhooks and kills itself right after the step that KILL_AFTER names. */
import pino from "pino";
import { networkOfChain } from "turnpike/protocol";
import { Secret } from "../../../../facilitator/src/config/setting";
import { openStore } from "../../../../facilitator/src/db/open";
import { createMetrics } from "../../../../facilitator/src/telemetry/metrics";
import { createDeliveryWorker } from "../../../../facilitator/src/webhooks/delivery";
import { createSender } from "../../../../facilitator/src/webhooks/send";

async function main(): Promise<void> {
  const { DATABASE_URL = "", KILL_AFTER, CHAIN_ID } = process.env;
  const store = await openStore({ kind: "postgres", url: new Secret(DATABASE_URL), poolSize: 2 });
  createDeliveryWorker({
    store,
    network: networkOfChain(Number(CHAIN_ID)),
    sender: createSender({ allowPrivate: true }),
    log: pino({ level: "silent" }),
    metrics: createMetrics(),
    inFlight: 4,
    pollMs: 20,
    nowMs: () => Date.now() + 2_000,
    monotonicMs: () => performance.now(),
    random: () => 0.5,
    onStep(step) {
      if (step === KILL_AFTER) process.kill(process.pid, "SIGKILL");
    },
  });
}

void main();
