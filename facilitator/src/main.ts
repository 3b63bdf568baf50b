/**
 * The Facilitator as one process: wires the rooms, serves HTTP, stops gracefully. `startFacilitator` for whoever embeds
 * it; run as a program it takes its settings from the environment.
 */
import type { Logger } from "pino";
import { isTurnpikeError } from "turnpike/protocol";
import { type FacilitatorConfig, loadConfig } from "./config";
import { type Core, type CoreEffects, startCore } from "./core";
import { listEvents } from "./feed";
import { createApp, type Doors } from "./http/app";
import { createRateLimit } from "./http/rate-limit";
import { startServer } from "./http/server";
import { createLog, secretsOf } from "./log";
import { createMetrics, type Metrics } from "./metrics";
import { readinessOf } from "./readiness";
import { createRenewals } from "./renewals/runner";
import { countDue } from "./renewals/work-list";
import { createSubscriptions } from "./subscriptions";

export interface FacilitatorEffects {
  readonly logger?: Logger;
  /** to the chain's nodes */
  readonly fetch?: CoreEffects["fetch"];
}

export interface RunningFacilitator {
  readonly url: string;
  /** Answers who is waiting, closes everything. What is under way on the chain goes on at the next start. */
  stop(): Promise<void>;
}

const DRAIN_MS = 5_000;

/** @throws ConfigError, Unavailable when the chain does not answer */
export async function startFacilitator(
  config: FacilitatorConfig,
  effects: FacilitatorEffects = {},
): Promise<RunningFacilitator> {
  const log = effects.logger ?? createLog({ level: config.logLevel, secrets: secretsOf(config) });
  const core = await startCore(config, { log, ...(effects.fetch && { fetch: effects.fetch }) });
  const metrics = createMetrics();
  const drain = createDrain();
  const renewals = config.renewals
    ? createRenewals({ ...core, clock: core.indexer.clock, log, metrics })
    : { stop: async () => undefined };
  try {
    watch(metrics, core);
    const app = createApp(doorsOf({ core, metrics, log, drain }));
    const server = await startServer({ fetch: app.fetch, host: config.host, port: config.port });
    log.info({ url: server.url, network: config.network.name, turnpike: config.turnpike }, "the Facilitator is up");
    let stopped: Promise<void> | undefined;
    return {
      url: server.url,
      stop: () => (stopped ??= stopAll()),
    };

    async function stopAll(): Promise<void> {
      drain.begin();
      await Promise.all([server.stop(DRAIN_MS), renewals.stop()]);
      await core.stop();
      metrics.close();
      log.info("the Facilitator has stopped");
    }
  } catch (error) {
    await renewals.stop();
    await core.stop();
    throw error;
  }
}

interface Wiring {
  readonly core: Core;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly drain: Drain;
}

function doorsOf({ core, metrics, log, drain }: Wiring): Doors {
  const { config, store, relayer, indexer, payments } = core;
  const { clock } = indexer;
  const monotonicMs = () => performance.now();
  return {
    network: config.network,
    payments,
    subscriptions: createSubscriptions({ config, store, relayer, indexer, clock, monotonicMs }),
    events: { list: (page) => listEvents(store.db, config.chainId, page) },
    supported: {
      turnpike: config.turnpike,
      batchSettler: config.batchSettler,
      proofSigners: [relayer.proofSigner.address],
      relayers: [...relayer.addresses],
      tokens: config.tokens.map(({ address, name, version, decimals }) => ({ address, name, version, decimals })),
    },
    readiness: () => readinessOf(core),
    metrics,
    log,
    rateLimit: createRateLimit(config.requestsPerMinute, monotonicMs),
    authorizeWaitMs: config.authorizeWaitMs,
    monotonicMs,
    untilDraining: drain.until,
  };
}

function watch(metrics: Metrics, { config, store, relayer, indexer }: Core): void {
  metrics.watch({
    lanes: () =>
      relayer.health().lanes.map(({ key, balanceWei, inFlight, queued }) => ({
        key,
        balanceEth: Number(balanceWei ?? 0n) / 1e18,
        inFlight,
        queued,
      })),
    indexerLagBlocks: () => (indexer.head()?.number ?? 0) - indexer.applied(),
    renewalsDue: () => countDue(store.db, config.chainId, indexer.clock.nowSec()),
  });
}

interface Drain {
  begin(): void;
  until<T>(work: Promise<T>): Promise<T | "draining">;
}

/** Each wait is let go as soon as its work is done: a race against one lasting promise would keep them all. */
function createDrain(): Drain {
  const waiting = new Set<() => void>();
  let isDraining = false;
  return {
    begin() {
      isDraining = true;
      for (const letGo of [...waiting]) letGo();
    },
    until: <T>(work: Promise<T>) =>
      new Promise<T | "draining">((resolve, reject) => {
        const letGo = (): void => resolve("draining");
        waiting.add(letGo);
        work.then(resolve, reject).finally(() => waiting.delete(letGo));
        if (isDraining) letGo();
      }),
  };
}

async function runFromEnvironment(): Promise<void> {
  const facilitator = await startFacilitator(loadConfig(process.env));
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      void facilitator.stop().then(
        () => process.exit(0),
        (error: unknown) => fail(error),
      );
    });
  }
}

function fail(error: unknown): never {
  const told = isTurnpikeError(error)
    ? `${error.code}: ${error.message}`
    : error instanceof Error
      ? error.stack
      : "unknown";
  process.stderr.write(`${told}\n`);
  process.exit(1);
}

if (require.main === module) void runFromEnvironment().catch(fail);
