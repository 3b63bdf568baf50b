/** Runs the Facilitator as one process: starts the parts that its roles need, serves HTTP, stops gracefully. */
import type { Logger } from "pino";
import type { FacilitatorConfig } from "../config";
import type { ChainConfigs } from "../config/chains";
import { createMetricsPage, type MetricsText } from "../http/probes";
import { type RunningServer, startServer } from "../http/server";
import { createStarting } from "../http/starting";
import { noProgress, type Progress } from "../lib/progress";
import { createLog, secretsOf } from "../telemetry/log";
import { openTracing, type Tracing } from "../telemetry/tracing";
import { type CoreEffects, NODES_DRAIN_MS } from "./core";
import { type Front, oneChain, type RunningParts, type SandboxOf, severalChains } from "./deployment";
import { createDrain } from "./drain";

export interface FacilitatorEffects {
  readonly logger?: Logger;
  readonly fetch?: CoreEffects["fetch"];
  readonly onStep?: CoreEffects["onStep"];
  readonly progress?: Progress;
  readonly sandbox?: SandboxOf;
  /** how long a stop still answers on connections that clients have kept, each for the last time; default 0 */
  readonly leaveMs?: number;
  /** aborts a start in progress: it stops what it started and throws the signal's reason */
  readonly signal?: AbortSignal;
}

export interface RunningFacilitator {
  readonly url: string;
  readonly metricsUrl?: string;
  /** Resolves, with the reason, after the service has stopped by itself: another release migrated its database. */
  readonly ended: Promise<Error>;
  /** Answers waiting requests and closes everything. Pending transactions continue at the next start. */
  stop(): Promise<void>;
}

const DRAIN_MS = 5_000;

/** When unanswered requests get 503: after the wait for nodes, before connections are cut. */
const ANSWER_MS = 4_000;

/** Serves the metrics on their own port, where METRICS_PORT names one. */
async function startMetricsServer(
  { metricsHost: host, metricsPort: port }: FacilitatorConfig,
  metrics: MetricsText,
): Promise<RunningServer | undefined> {
  if (port === undefined) return undefined;
  const names = { host: "METRICS_HOST", port: "METRICS_PORT" };
  return startServer({ fetch: createMetricsPage(metrics).fetch, host, port, names });
}

/**
 * Starts everything that the roles need. HTTP answers from the start: alive, and not ready until all parts are up.
 * @param config a list for several chains, as `loadChains` reads it: then the start ends when each was tried once
 * @throws ConfigError, or Unavailable when no node of the only chain answers; the parts already started are stopped then
 */
export async function startFacilitator(
  config: FacilitatorConfig | ChainConfigs,
  effects: FacilitatorEffects = {},
): Promise<RunningFacilitator> {
  const deployment = isList(config) ? severalChains(config) : oneChain(config);
  const configs = isList(config) ? config : [config];
  const [first] = configs;
  const log = effects.logger ?? createLog({ level: first.logLevel, secrets: configs.flatMap(secretsOf) });
  const { host, port, maxConnections } = first;
  const { metrics } = deployment;
  const { progress = noProgress, leaveMs = 0 } = effects;
  const drain = createDrain();
  const starting = createStarting(first.metricsPort === undefined ? metrics : undefined);
  const refusing: Front = { fetch: starting.app.fetch };
  const front: Front = { ...refusing };
  const superseded = new AbortController();
  let isStopping = false;
  const shown = (): Front => (superseded.signal.aborted ? refusing : front);
  const server = await startServer({
    // A balancer that asks sends nothing more, while what arrives is answered.
    fetch: (request, env) =>
      (isStopping && new URL(request.url).pathname === "/readyz" ? refusing : shown()).fetch(request, env),
    directRoutes: (incoming, outgoing) => shown().directRoutes?.(incoming, outgoing) ?? false,
    host,
    port,
    maxConnections,
  });
  const metricsServer = await startMetricsServer(first, metrics).catch(async (error: unknown) => {
    await server.stop(0);
    throw error;
  });
  const at = {
    url: server.url,
    ...(metricsServer && { metricsUrl: metricsServer.url }),
    roles: [...new Set(configs.flatMap(({ roles }) => roles))],
  };
  log.info(at, "the Facilitator starts");
  let parts: RunningParts | undefined;
  let tracing: Tracing | undefined;
  let stopped: Promise<void> | undefined;

  /** Stops each part even when another one fails to stop. */
  async function stopAll(): Promise<void> {
    isStopping = true;
    if (!superseded.signal.aborted) starting.onStage("stopping");
    drain.begin();
    // On tables of another release nothing more is answered from them.
    if (superseded.signal.aborted) drain.end();
    const timers = [setTimeout(() => parts?.endNodes(), NODES_DRAIN_MS), setTimeout(() => drain.end(), ANSWER_MS)];
    for (const outcome of await Promise.allSettled([server.stop(DRAIN_MS, leaveMs), parts?.stopWorkers()]))
      if (outcome.status === "rejected") log.warn({ error: outcome.reason }, "a part did not stop cleanly");
    await parts?.stop();
    for (const timer of timers) clearTimeout(timer);
    await tracing?.stop();
    // Last, so that the stop is measured too.
    await metricsServer?.stop(0);
    metrics.close();
    log.info("the Facilitator has stopped");
  }

  const stop = (): Promise<void> => (stopped ??= stopAll());
  let end: (reason: Error) => void;
  const ended = new Promise<Error>((resolve) => {
    end = resolve;
  });
  const signal = effects.signal ? AbortSignal.any([effects.signal, superseded.signal]) : superseded.signal;
  let isUp = false;

  function onSuperseded(error: Error): void {
    if (superseded.signal.aborted) return;
    log.fatal({ error: error.message }, "another release migrated the database: the Facilitator stops");
    starting.onStage(error.message);
    superseded.abort(error);
    if (isUp) void stop().then(() => end(error));
  }

  try {
    tracing = await openTracing(first, log);
    parts = await deployment.start({
      log,
      tracing,
      drain,
      front,
      progress,
      signal,
      onSuperseded,
      sandbox: effects.sandbox,
      onStage: starting.onStage,
      ...(effects.fetch && { fetch: effects.fetch }),
      ...(effects.onStep && { onStep: effects.onStep }),
    });
    signal.throwIfAborted();
    isUp = true;
    log.info({ ...at, ...deployment.facts }, "the Facilitator is up");
    return { ...at, ended, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const isList = (config: FacilitatorConfig | ChainConfigs): config is ChainConfigs => Array.isArray(config);
