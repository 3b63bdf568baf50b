/** Runs the Facilitator as one process: starts the parts that its roles need, serves HTTP, stops gracefully. */
import type { Logger } from "pino";
import { type Clock, Unavailable } from "turnpike/protocol";
import { centsOf, createCosts } from "../analytics/costs";
import { startRetention } from "../analytics/retention";
import type { FacilitatorConfig } from "../config";
import { ROLES, type Role } from "../config/roles";
import { startDiscovery } from "../discovery";
import { createApi } from "../http/app";
import type { FastLane } from "../http/direct-routes";
import { createMetricsPage, createProbes } from "../http/probes";
import { type RunningServer, startServer } from "../http/server";
import type { Sandbox } from "../http/services";
import { createStarting } from "../http/starting";
import type { Worker } from "../lib/loop";
import { noProgress, type Progress } from "../lib/progress";
import { createRenewals } from "../subscriptions/renewals/runner";
import { countDue } from "../subscriptions/renewals/work-list";
import { createLog, secretsOf } from "../telemetry/log";
import { createMetrics, type Metrics } from "../telemetry/metrics";
import { openTracing, type Tracing } from "../telemetry/tracing";
import { startWebhooks } from "../webhooks";
import { countPending } from "../webhooks/delivery-log";
import { buildApiServices, type Drain } from "./api-services";
import { type Core, type CoreEffects, NODES_DRAIN_MS, startCore } from "./core";
import { isLaneWell, readinessOf } from "./readiness";
import { startAppUpkeep } from "./upkeep";

/** The context of a worker. */
interface RoleContext extends Core {
  /** chain time */
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly progress: Progress;
}

export interface FacilitatorEffects {
  readonly logger?: Logger;
  /** to the chain's nodes */
  readonly fetch?: CoreEffects["fetch"];
  /** called after each step of a payment, where a test kills the process */
  readonly onStep?: CoreEffects["onStep"];
  /** reports the progress of long work to the terminal */
  readonly progress?: Progress;
  /** what makes this service a sandbox */
  readonly sandbox?: Sandbox;
  /** aborts a start in progress: it stops what it started and throws the signal's reason */
  readonly signal?: AbortSignal;
}

export interface RunningFacilitator {
  readonly url: string;
  /** where METRICS_PORT serves the metrics */
  readonly metricsUrl?: string;
  /** Answers waiting requests and closes everything. Pending transactions continue at the next start. */
  stop(): Promise<void>;
}

const DRAIN_MS = 5_000;

/** When unanswered requests get 503: after the wait for nodes, before connections are cut. */
const ANSWER_MS = 4_000;

/** A replacement process is up by then. */
const RETRY_AFTER_SEC = 5;

/** Serves the metrics on their own port, where METRICS_PORT names one. */
async function startMetricsServer(
  { metricsHost: host, metricsPort: port }: FacilitatorConfig,
  metrics: Metrics,
): Promise<RunningServer | undefined> {
  if (port === undefined) return undefined;
  const names = { host: "METRICS_HOST", port: "METRICS_PORT" };
  return startServer({ fetch: createMetricsPage(metrics).fetch, host, port, names });
}

const IDLE: Worker = { stop: async () => undefined };

/** The workers of each role. The core does the work of relayer and indexer, and HTTP is the api. */
const WORKERS: { readonly [R in Role]?: readonly ((context: RoleContext) => Worker)[] } = {
  renewals: [(context) => (context.config.renewals ? createRenewals(context) : IDLE)],
  // Both send requests to hosts that providers name.
  webhooks: [startWebhooks, startDiscovery],
  indexer: [startRetention, startAppUpkeep],
};

/**
 * Starts everything that the roles need. HTTP answers from the start: alive, and not ready until all parts are up.
 * @throws ConfigError, or Unavailable when no node answers; the parts already started are stopped by then
 */
export async function startFacilitator(
  config: FacilitatorConfig,
  effects: FacilitatorEffects = {},
): Promise<RunningFacilitator> {
  const log = effects.logger ?? createLog({ level: config.logLevel, secrets: secretsOf(config) });
  const { progress = noProgress, signal } = effects;
  const { roles, network, turnpike, host, port, maxConnections } = config;
  const metrics = createMetrics();
  const drain = createDrain();
  const served = config.metricsPort === undefined ? metrics : undefined;
  const starting = createStarting(served);
  let fetch: (request: Request, env?: unknown) => Response | Promise<Response> = starting.app.fetch;
  let fastLane: FastLane | undefined;
  const server = await startServer({
    fetch: (request, env) => fetch(request, env),
    fastLane: (incoming, outgoing) => fastLane?.(incoming, outgoing) ?? false,
    ...{ host, port, maxConnections },
  });
  const metricsServer = await startMetricsServer(config, metrics).catch(async (error: unknown) => {
    await server.stop(0);
    throw error;
  });
  const at = { url: server.url, ...(metricsServer && { metricsUrl: metricsServer.url }), roles };
  log.info(at, "the Facilitator starts");
  let core: Core | undefined;
  let tracing: Tracing | undefined;
  const workers: Worker[] = [];
  let stopped: Promise<void> | undefined;

  /** Stops each part even when another one fails to stop. */
  async function stopAll(): Promise<void> {
    drain.begin();
    const timers = [setTimeout(() => core?.endNodes(), NODES_DRAIN_MS), setTimeout(() => drain.end(), ANSWER_MS)];
    const parts = [server.stop(DRAIN_MS), ...workers.map((worker) => worker.stop())];
    for (const outcome of await Promise.allSettled(parts))
      if (outcome.status === "rejected") log.warn({ error: outcome.reason }, "a part did not stop cleanly");
    await core?.stop();
    for (const timer of timers) clearTimeout(timer);
    await tracing?.stop();
    // Last, so that the stop is measured too.
    await metricsServer?.stop(0);
    metrics.close();
    log.info("the Facilitator has stopped");
  }

  try {
    tracing = await openTracing(config, log);
    core = await startCore(config, {
      ...{ log, metrics, tracing, progress, signal, onStage: starting.onStage },
      ...(effects.fetch && { fetch: effects.fetch }),
      ...(effects.onStep && { onStep: effects.onStep }),
    });
    watch(metrics, core);
    const context: RoleContext = { ...core, clock: core.indexer.clock, log, metrics, progress };
    for (const role of ROLES) {
      if (roles.includes(role)) for (const start of WORKERS[role] ?? []) workers.push(start(context));
    }
    const running = core;
    // Without the role api, health and metrics are served all the same.
    if (roles.includes("api")) {
      const api = createApi(buildApiServices({ core, metrics, tracing, log, drain, sandbox: effects.sandbox }));
      fetch = api.app.fetch;
      fastLane = api.fastLane;
    } else fetch = createProbes({ readiness: () => readinessOf(running), metrics: served }).fetch;
    signal?.throwIfAborted();
    log.info({ ...at, network: network.name, turnpike }, "the Facilitator is up");
    return { ...at, stop: () => (stopped ??= stopAll()) };
  } catch (error) {
    await stopAll();
    throw error;
  }
}

function watch(metrics: Metrics, { config, store, database, relayer, indexer, payments }: Core): void {
  const costs = createCosts(store.db, config.chainId, config.nativePrice);
  metrics.watch({
    lanes: () =>
      relayer.health().lanes.map((lane) => ({
        ...lane,
        balanceEth: Number(lane.balanceWei ?? 0n) / 1e18,
        isWell: isLaneWell(lane),
        isHeld: lane.status === "running",
      })),
    nodes: () => relayer.nodes.nodes().map((node) => ({ ...node, isWell: node.status === "well" })),
    isDatabaseWell: () => database.health().ok,
    databasePool: () => store.connections(),
    indexerLagBlocks: () => Math.max(0, (indexer.health().head ?? 0) - indexer.applied()),
    indexerLagSec: () => indexer.health().lagSec,
    headAgeSec: () => indexer.health().headAgeSec,
    isReorganisedTooDeeply: () => indexer.health().isTooDeep,
    isIndexing: () => indexer.health().isIndexing,
    paymentQueue: () => payments.health(),
    costs: async () =>
      (await costs.ofLastDay()).map(({ purpose, transactions, gas, wei }) => ({
        purpose,
        transactions,
        gas,
        ...(costs.nativePrice !== undefined && { cents: centsOf(wei, costs.nativePrice) }),
      })),
    renewalsDue: () => countDue(store.db, config.chainId, indexer.clock.nowSec()),
    webhooksPending: () => countPending(store.db, config.chainId),
  });
}

function createDrain(): Drain {
  const [drained, ended] = [createGate(), createGate()];
  return {
    begin: drained.open,
    end: ended.open,
    until: (work) => drained.race(work, "draining" as const),
    async untilEnd(work) {
      const outcome = await ended.race(work, undefined);
      if (outcome === undefined)
        throw new Unavailable("The Facilitator is stopping; send the request again.", {
          retryAfterSec: RETRY_AFTER_SEC,
        });
      return outcome;
    },
  };
}

/** Each race is released when its work is done: racing against one lasting promise would keep them all in memory. */
function createGate() {
  const waiting = new Set<() => void>();
  let isOpen = false;
  return {
    open() {
      isOpen = true;
      for (const end of [...waiting]) end();
    },
    race: <T, U>(work: Promise<T>, instead: U) =>
      new Promise<T | U>((resolve, reject) => {
        const end = (): void => resolve(instead);
        waiting.add(end);
        work.then(resolve, reject).finally(() => waiting.delete(end));
        if (isOpen) end();
      }),
  };
}
