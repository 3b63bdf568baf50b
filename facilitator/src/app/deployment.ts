/** The two forms of the service below HTTP: on one chain, and on several. */
import type { Logger } from "pino";
import type { Network } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { ChainConfigs } from "../config/chains";
import { createApi } from "../http/app";
import { createOneChainFetch } from "../http/asked-network";
import { type ChainApi, createChainRouter } from "../http/chain-router";
import type { DirectRoutes } from "../http/direct-routes";
import { createProbes, type MetricsText } from "../http/probes";
import type { ApiServices, Sandbox } from "../http/services";
import type { Progress } from "../lib/progress";
import { createMetrics, createServiceMetrics } from "../telemetry/metrics";
import type { Tracing } from "../telemetry/tracing";
import { buildApiServices, createLimits } from "./api-services";
import { type RunningChain, startChain } from "./chain";
import { openChains } from "./chains";
import { readinessOfChains } from "./chains-readiness";
import type { CoreEffects } from "./core";
import type { Drain } from "./drain";
import { createLookups } from "./lookups";
import { readinessOf } from "./readiness";

/** What answers requests: first the page of the start, then the API. */
export interface Front {
  fetch(request: Request, env?: unknown): Response | Promise<Response>;
  directRoutes?: DirectRoutes;
}

/** The sandbox of each chain, which has a clock of its own. */
export type SandboxOf = (network: Network) => Sandbox | undefined;

export interface DeploymentParts extends Pick<CoreEffects, "fetch" | "onStep" | "onSuperseded"> {
  readonly log: Logger;
  readonly tracing: Tracing | undefined;
  readonly drain: Drain;
  readonly front: Front;
  readonly onStage: (stage: string) => void;
  readonly progress: Progress;
  readonly sandbox: SandboxOf | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface RunningParts {
  stopWorkers(): Promise<void>;
  endNodes(): void;
  stop(): Promise<void>;
}

export interface Deployment {
  readonly metrics: MetricsText & { close(): void };
  readonly facts: Readonly<Record<string, unknown>>;
  /** Starts the parts and puts the API in front. */
  start(parts: DeploymentParts): Promise<RunningParts>;
}

export function oneChain(config: FacilitatorConfig): Deployment {
  const metrics = createMetrics();
  return {
    metrics,
    facts: { network: config.network.name, turnpike: config.turnpike },
    async start({ front, drain, sandbox, ...effects }) {
      const { log, tracing } = effects;
      const chain = await startChain(config, { ...effects, metrics });
      const { core } = chain;
      // Without the role api, health and metrics are served all the same.
      if (config.roles.includes("api")) {
        const limits = createLimits(config);
        const own = sandbox?.(config.network);
        const api = createApi(buildApiServices({ core, metrics, tracing, log, drain, sandbox: own, limits }));
        front.fetch = createOneChainFetch(api, config.network);
        front.directRoutes = api.directRoutes;
      } else {
        const served = config.metricsPort === undefined ? metrics : undefined;
        front.fetch = createProbes({ readiness: (network) => readinessOf(core, network), metrics: served }).fetch;
      }
      return {
        stopWorkers: () => chain.stopWorkers(),
        endNodes: () => core.endNodes(),
        stop: () => core.stop(),
      };
    },
  };
}

/** @param configs one for each chain, as `loadChains` reads them */
export function severalChains(configs: ChainConfigs): Deployment {
  const metrics = createServiceMetrics();
  const [first] = configs;
  return {
    metrics,
    facts: { networks: configs.map(({ network }) => network.name) },
    async start({ front, drain, sandbox, ...effects }) {
      const { log, tracing } = effects;
      const limits = createLimits(first);
      const servesApi = configs.filter(({ roles }) => roles.includes("api"));
      const chainIds = servesApi.map(({ chainId }) => chainId);
      const apis = new Map<number, ChainApi>();
      const inOrder = (): ChainApi[] => chainIds.flatMap((chainId) => apis.get(chainId) ?? []);
      const chains = await openChains(configs, { ...effects, metrics, onUp });
      const readiness: ApiServices["readiness"] = (network) => readinessOfChains(chains, network);
      const router = createChainRouter({
        networks: servesApi.map(({ network }) => network),
        apis: inOrder,
        lookups: createLookups(chains.database.store.db, servesApi),
      });
      function onUp({ core, metrics: own }: RunningChain): void {
        if (!core.config.roles.includes("api")) return;
        const services = buildApiServices({
          core,
          metrics: own,
          tracing,
          log,
          drain,
          sandbox: sandbox?.(core.config.network),
          limits,
          deployment: { chainIds, readiness, all: () => inOrder().map((api) => api.services) },
        });
        apis.set(core.config.chainId, { services, ...createApi(services) });
        front.fetch = router.fetch;
        front.directRoutes = router.directRoutes;
      }
      if (servesApi.length === 0) {
        const served = first.metricsPort === undefined ? metrics : undefined;
        front.fetch = createProbes({ readiness, metrics: served }).fetch;
      }
      await chains.begin();
      return chains;
    },
  };
}
