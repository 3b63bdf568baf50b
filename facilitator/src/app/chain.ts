/** Runs one chain: its core, its metrics, and the workers of the process's roles. */
import type { Logger } from "pino";
import type { Clock } from "turnpike/protocol";
import { startRetention } from "../analytics/retention";
import type { FacilitatorConfig } from "../config";
import { ROLES, type Role } from "../config/roles";
import { startDiscovery } from "../discovery";
import type { Worker } from "../lib/loop";
import { noProgress, type Progress } from "../lib/progress";
import { createRenewals } from "../subscriptions/renewals/runner";
import type { Metrics } from "../telemetry/metrics";
import { startWebhooks } from "../webhooks";
import { type Core, type CoreEffects, startCore } from "./core";
import { startDigests } from "./digests";
import { watchCore } from "./gauges";
import { startAppUpkeep } from "./upkeep";

interface RoleContext extends Core {
  /** chain time */
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly progress: Progress;
}

const IDLE: Worker = { stop: async () => undefined };

/** The workers of each role. The core does the work of relayer and indexer, and HTTP is the api. */
const WORKERS: { readonly [R in Role]?: readonly ((context: RoleContext) => Worker)[] } = {
  renewals: [(context) => (context.config.renewals ? createRenewals(context) : IDLE)],
  // The first two send requests to hosts that providers name.
  webhooks: [startWebhooks, startDiscovery, startDigests],
  indexer: [startRetention, startAppUpkeep],
};

export interface RunningChain {
  readonly core: Core;
  readonly metrics: Metrics;
  /** Stops the workers; the core goes on, for requests that wait for an outcome. */
  stopWorkers(): Promise<void>;
}

export async function startChain(
  config: FacilitatorConfig,
  effects: CoreEffects & { readonly metrics: Metrics },
): Promise<RunningChain> {
  const { log, metrics, progress = noProgress } = effects;
  const core = await startCore(config, effects);
  const workers: Worker[] = [];
  /** Stops each worker even when another one fails to stop. */
  async function stopWorkers(): Promise<void> {
    for (const outcome of await Promise.allSettled(workers.splice(0).map((worker) => worker.stop())))
      if (outcome.status === "rejected") log.warn({ error: outcome.reason }, "a part did not stop cleanly");
  }
  try {
    const context: RoleContext = { ...core, clock: core.indexer.clock, log, metrics, progress };
    for (const role of ROLES) {
      if (config.roles.includes(role)) for (const start of WORKERS[role] ?? []) workers.push(start(context));
    }
    watchCore(metrics, core);
    return { core, metrics, stopWorkers };
  } catch (error) {
    await stopWorkers();
    await core.stop();
    throw error;
  }
}
