/**
 * Runs several chains on one database. Each starts by itself and is started again until it succeeds, so that a chain
 * that is away or misconfigured leaves the others alone.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { isTurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import { untilDatabaseAnswers } from "../db/patience";
import { createMetrics, type Metrics, type ServiceMetrics } from "../telemetry/metrics";
import { type RunningChain, startChain } from "./chain";
import { type CoreEffects, NODES_DRAIN_MS } from "./core";
import { type Database, openDatabase } from "./database";
import { databaseGauges } from "./gauges";

export interface ChainState {
  readonly config: FacilitatorConfig;
  readonly running: RunningChain | undefined;
  /** what the start is doing, or why it failed last */
  readonly stage: string;
}

export interface ChainsEffects extends Omit<CoreEffects, "database" | "metrics" | "signal"> {
  readonly metrics: ServiceMetrics;
  readonly onStage: (stage: string) => void;
  readonly onUp: (running: RunningChain) => void;
  readonly signal: AbortSignal | undefined;
}

const FIRST_RETRY_MS = 1_000;

const LAST_RETRY_MS = 15_000;

/** Opens the database of several chains, and starts none of them yet. */
export async function openChains(configs: readonly FacilitatorConfig[], effects: ChainsEffects): Promise<Chains> {
  const { log, signal, onStage } = effects;
  const [first] = configs;
  if (!first) throw new TypeError("no chain is configured");
  onStage("opening the database");
  const database = await untilDatabaseAnswers(() => openDatabase(first, log, effects.onSuperseded), {
    log,
    onWait: onStage,
    monotonicMs: () => performance.now(),
    ...(signal && { signal }),
  });
  effects.metrics.watchDatabase(databaseGauges(database));
  return new Chains(configs, database, effects);
}

export class Chains {
  readonly database: Database;
  /** They are in the order of `CHAINS`. */
  readonly states: readonly ChainState[];
  readonly #starters: readonly ChainStarter[];
  readonly #signal: AbortSignal | undefined;
  readonly #ending = new AbortController();

  constructor(configs: readonly FacilitatorConfig[], database: Database, effects: ChainsEffects) {
    const { log, signal, onStage, metrics } = effects;
    this.database = database;
    this.#signal = signal;
    const ending = signal ? AbortSignal.any([signal, this.#ending.signal]) : this.#ending.signal;
    this.#starters = configs.map((config) => {
      const { name } = config.network;
      return new ChainStarter(config, {
        ...effects,
        database,
        signal: ending,
        log: log.child({ chain: name }),
        metrics: createMetrics({ chain: name, service: metrics }),
        onStage: (stage) => onStage(`${name}: ${stage}`),
      });
    });
    this.states = this.#starters;
  }

  /**
   * Resolves when the first attempt of each chain has ended, whatever came of it.
   * @throws ConfigError when the settings of every chain are wrong; everything is stopped then
   */
  async begin(): Promise<void> {
    const failures = await Promise.all(this.#starters.map((starter) => starter.begin()));
    const isHopeless = failures.every((failure) => isTurnpikeError(failure) && failure.code === "ConfigError");
    if (!isHopeless && !this.#signal?.aborted) return;
    await this.stop();
    this.#signal?.throwIfAborted();
    throw failures[0];
  }

  async stopWorkers(): Promise<void> {
    this.#ending.abort(new Error("the service stops"));
    await Promise.all(this.#starters.map(({ running }) => running?.stopWorkers()));
  }

  endNodes(): void {
    for (const { running } of this.#starters) running?.core.endNodes();
  }

  async stop(): Promise<void> {
    this.#ending.abort(new Error("the service stops"));
    await Promise.all(this.#starters.map((starter) => starter.stop()));
    await this.database.stop();
  }
}

interface StarterEffects extends Omit<ChainsEffects, "metrics" | "signal"> {
  readonly database: Database;
  readonly metrics: Metrics;
  readonly signal: AbortSignal;
}

/** Starts one chain, and again after each failure. */
class ChainStarter implements ChainState {
  readonly config: FacilitatorConfig;
  readonly #effects: StarterEffects;
  #work: Promise<void> = Promise.resolve();
  running: RunningChain | undefined;
  stage = "starting";

  constructor(config: FacilitatorConfig, effects: StarterEffects) {
    this.config = config;
    this.#effects = effects;
  }

  /** @returns why the first attempt failed; undefined when the chain is up. Further attempts follow. */
  async begin(): Promise<unknown> {
    const failure = await this.#attempt();
    if (failure !== undefined && !this.#effects.signal.aborted) this.#work = this.#retry();
    return failure;
  }

  async stop(): Promise<void> {
    await this.#work;
    const { running } = this;
    if (!running) return;
    const cut = setTimeout(() => running.core.endNodes(), NODES_DRAIN_MS);
    await running.stopWorkers();
    await running.core.stop();
    clearTimeout(cut);
  }

  async #retry(): Promise<void> {
    const { signal } = this.#effects;
    for (let waitMs = FIRST_RETRY_MS; !signal.aborted; waitMs = Math.min(2 * waitMs, LAST_RETRY_MS)) {
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted && (await this.#attempt()) === undefined) return;
    }
  }

  async #attempt(): Promise<unknown> {
    const { log, onUp, onStage, signal } = this.#effects;
    try {
      const running = await startChain(this.config, {
        ...this.#effects,
        onStage: (stage) => {
          this.stage = stage;
          onStage(stage);
        },
      });
      this.running = running;
      this.stage = "up";
      log.info({ network: this.config.network.name, turnpike: this.config.turnpike }, "the chain is up");
      onUp(running);
      return undefined;
    } catch (error) {
      if (signal.aborted) return error;
      this.stage = isTurnpikeError(error) ? error.message : "it could not be started";
      log.error({ error }, "the chain could not be started; the others go on, and it is tried again");
      return error;
    }
  }
}
