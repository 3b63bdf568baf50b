/** The Facilitator as one process: wires the rooms that its roles need, serves HTTP, stops gracefully. */
import type { Logger } from "pino";
import type { SupportedWire } from "turnpike/facilitator";
import type { TrustedSigners } from "turnpike/protocol";
import { createAnalytics } from "./analytics";
import { startTidying } from "./analytics/tidy";
import type { FacilitatorConfig } from "./config";
import { type Core, type CoreEffects, startCore } from "./core";
import { centsOf, createCosts } from "./costs";
import { createApi, type Doors } from "./http/app";
import type { FastLane } from "./http/fast-lane";
import { createProbes } from "./http/probes";
import { createRateLimit } from "./http/rate-limit";
import { startServer } from "./http/server";
import { createStarting } from "./http/starting";
import { createLog, secretsOf } from "./log";
import { createMetrics, type Metrics } from "./metrics";
import { noProgress, type Progress } from "./progress";
import { createProviders } from "./providers";
import { isLaneWell, readinessOf } from "./readiness";
import { createRenewals } from "./renewals/runner";
import { countDue } from "./renewals/work-list";
import { createReports } from "./reports";
import { ROLES, type Role, type RoleContext, type Worker } from "./roles";
import type { Sandbox } from "./sandbox";
import { createSubscriptions } from "./subscriptions";
import { systemOf } from "./system";
import { startWebhooks } from "./webhooks";
import { countPending } from "./webhooks/delivery-log";

export interface FacilitatorEffects {
  readonly logger?: Logger;
  /** to the chain's nodes */
  readonly fetch?: CoreEffects["fetch"];
  /** told after each step of a payment: where a test kills the process */
  readonly onStep?: CoreEffects["onStep"];
  /** of long work, for who sits at the terminal */
  readonly progress?: Progress;
  /** what makes this service a sandbox */
  readonly sandbox?: Sandbox;
  /** ends a start that is under way: it stops what it began and throws the signal's reason */
  readonly signal?: AbortSignal;
}

export interface RunningFacilitator {
  readonly url: string;
  /** Answers who is waiting, closes everything. What is under way on the chain goes on at the next start. */
  stop(): Promise<void>;
}

const DRAIN_MS = 5_000;
const IDLE: Worker = { stop: async () => undefined };

/** What runs for each role beside the core, which does the work of relayer and indexer, and HTTP, which is the api. */
const WORKERS: { readonly [R in Role]?: (context: RoleContext) => Worker } = {
  renewals: (context) => (context.config.renewals ? createRenewals(context) : IDLE),
  webhooks: startWebhooks,
  indexer: startTidying,
};

/**
 * Starts everything that the roles need. HTTP answers from the first moment on: alive, and not ready before all is up.
 * @throws ConfigError, Unavailable when the chain does not answer; whatever had begun is stopped by then
 */
export async function startFacilitator(
  config: FacilitatorConfig,
  effects: FacilitatorEffects = {},
): Promise<RunningFacilitator> {
  const log = effects.logger ?? createLog({ level: config.logLevel, secrets: secretsOf(config) });
  const { progress = noProgress, signal } = effects;
  const { roles, network, turnpike, host, port } = config;
  const metrics = createMetrics();
  const drain = createDrain();
  const starting = createStarting(metrics);
  let fetch: (request: Request, env?: unknown) => Response | Promise<Response> = starting.app.fetch;
  let fastLane: FastLane | undefined;
  const server = await startServer({
    fetch: (request, env) => fetch(request, env),
    fastLane: (incoming, outgoing) => fastLane?.(incoming, outgoing) ?? false,
    ...{ host, port },
  });
  log.info({ url: server.url, roles }, "the Facilitator starts");
  let core: Core | undefined;
  const workers: Worker[] = [];
  let stopped: Promise<void> | undefined;

  /** Each part is stopped, whatever becomes of the others. */
  async function stopAll(): Promise<void> {
    drain.begin();
    const parts = [server.stop(DRAIN_MS), ...workers.map((worker) => worker.stop())];
    for (const outcome of await Promise.allSettled(parts))
      if (outcome.status === "rejected") log.warn({ error: outcome.reason }, "a part did not stop cleanly");
    await core?.stop();
    metrics.close();
    log.info("the Facilitator has stopped");
  }

  try {
    core = await startCore(config, {
      ...{ log, progress, signal, onStage: starting.onStage },
      ...(effects.fetch && { fetch: effects.fetch }),
      ...(effects.onStep && { onStep: effects.onStep }),
    });
    watch(metrics, core);
    const context: RoleContext = { ...core, clock: core.indexer.clock, log, metrics, progress };
    for (const role of ROLES) {
      if (roles.includes(role)) workers.push(WORKERS[role]?.(context) ?? IDLE);
    }
    const running = core;
    // Without the role api, what watches the process still finds its health and its measures.
    if (roles.includes("api")) {
      const api = createApi(doorsOf({ core, metrics, log, drain, sandbox: effects.sandbox }));
      fetch = api.app.fetch;
      fastLane = api.fastLane;
    } else fetch = createProbes({ readiness: () => readinessOf(running), metrics }).fetch;
    signal?.throwIfAborted();
    log.info({ url: server.url, roles, network: network.name, turnpike }, "the Facilitator is up");
    return { url: server.url, stop: () => (stopped ??= stopAll()) };
  } catch (error) {
    await stopAll();
    throw error;
  }
}

interface Wiring {
  readonly core: Core;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly drain: Drain;
  readonly sandbox: Sandbox | undefined;
}

function doorsOf({ core, metrics, log, drain, sandbox }: Wiring): Doors {
  const { config, store, relayer, indexer, payments, wallClock } = core;
  const { clock } = indexer;
  const monotonicMs = () => performance.now();
  const costs = createCosts(store.db, config.chainId, config.nativePrice);
  return {
    network: config.network,
    publicUrl: config.publicUrl,
    ...(sandbox && { sandbox }),
    payments,
    subscriptions: createSubscriptions({ config, store, relayer, indexer, clock, monotonicMs }),
    providers: createProviders({ config, store, relayer, indexer, monotonicMs, nowMs: wallClock.nowMs }),
    costs,
    analytics: createAnalytics({ db: store.db, config, clock }),
    reports: createReports({ store, config, clock }),
    happened: (timeoutMs) => store.wake.wait("events", timeoutMs),
    supported: {
      turnpike: config.turnpike,
      batchSettler: config.batchSettler,
      ...supportedSigners(relayer.trustedSigners),
      get relayers() {
        return [...relayer.addresses];
      },
      tokens: config.tokens.map(({ address, name, version, decimals }) => ({ address, name, version, decimals })),
    },
    readiness: () => readinessOf(core),
    system: () => systemOf(core, costs),
    metrics,
    log,
    rateLimit: createRateLimit(config.requestsPerMinute, monotonicMs),
    keyLimit: createRateLimit(config.keyRequestsPerMinute, monotonicMs),
    authorizeWaitMs: config.authorizeWaitMs,
    monotonicMs,
    untilDraining: drain.until,
  };
}

function supportedSigners({ list }: TrustedSigners): Pick<SupportedWire, "proofSigners" | "retiredProofSigners"> {
  return {
    proofSigners: list.flatMap(({ address, until }) => (until === undefined ? [address] : [])),
    retiredProofSigners: list.flatMap(({ address, until }) => (until === undefined ? [] : [{ address, until }])),
  };
}

function watch(metrics: Metrics, { config, store, database, relayer, indexer }: Core): void {
  const costs = createCosts(store.db, config.chainId, config.nativePrice);
  metrics.watch({
    lanes: () =>
      relayer.health().lanes.map((lane) => ({
        ...lane,
        balanceEth: Number(lane.balanceWei ?? 0n) / 1e18,
        isWell: isLaneWell(lane),
      })),
    nodes: () => relayer.nodes.nodes().map((node) => ({ ...node, isWell: node.status === "well" })),
    isDatabaseWell: () => database.health().ok,
    indexerLagBlocks: () => Math.max(0, (indexer.health().head ?? 0) - indexer.applied()),
    indexerLagSec: () => indexer.health().lagSec,
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
