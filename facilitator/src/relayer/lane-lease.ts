/** Keeps one lane's lease in this process: acquires it, renews it in time, and stops a lane whose key others use. */
import type { Logger } from "pino";
import type { ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { acquireLease, isLeaseFree, type LeaseKey, releaseLease, renewLease, resetLane, stopLane } from "./lease";

export type LaneStatus = "starting" | "standby" | "running" | "stopped";

export interface LaneLeaseOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly of: LeaseKey;
  readonly log: Logger;
  readonly monotonicMs: () => number;
}

export class LaneLease {
  readonly #options: LaneLeaseOptions;
  #lease: { readonly epoch: number; untilMs: number } | undefined;
  #status: LaneStatus = "starting";
  #reason: string | undefined;

  constructor(options: LaneLeaseOptions) {
    this.#options = options;
  }

  /** epoch of the lease; undefined while another process has it, as far as this one knows */
  get epoch(): number | undefined {
    return this.#lease?.epoch;
  }

  get status(): LaneStatus {
    return this.#status;
  }

  get reason(): string | undefined {
    return this.#reason;
  }

  /** Renews the lease, if this process has it. Runs beside the rounds, because a round may wait for a node. */
  async renew(): Promise<void> {
    const { config, store, of, log, monotonicMs } = this.#options;
    const lease = this.#lease;
    if (!lease) return;
    const askedMs = monotonicMs();
    if (await renewLease(store.leases, of, lease.epoch, config.laneLeaseMs)) {
      lease.untilMs = askedMs + config.laneLeaseMs;
      return;
    }
    if (this.#lease === lease) this.#lease = undefined;
    log.warn({ key: of.key }, "the lease of a lane lapsed, and another process acquired it");
  }

  /** Acquires a free lease. @returns whether a round can begin */
  async acquire(): Promise<boolean> {
    const { config, store, chain, of, log, monotonicMs } = this.#options;
    if (this.#lease && monotonicMs() < this.#lease.untilMs) return true;
    if (!this.#lease && store.kind !== "pglite" && !(await isLeaseFree(store, of))) {
      this.#status = "standby";
      return false;
    }
    // A process that reaches no node fails here, and leaves the lease to others.
    const chainNonce = await chain.nonce(of.key);
    if (this.#lease) {
      await this.renew();
      if (this.#lease) return true;
    }
    const askedMs = monotonicMs();
    const acquired = await acquireLease(store, of, {
      lifeMs: config.laneLeaseMs,
      firstNonce: chainNonce,
      steal: store.kind === "pglite",
    });
    if (!acquired) {
      this.#status = "standby";
      return false;
    }
    this.#lease = { epoch: acquired.epoch, untilMs: askedMs + config.laneLeaseMs };
    if (config.adoptNonce && (chainNonce > acquired.nextNonce || acquired.status === "stopped")) {
      log.warn({ key: of.key, nonce: chainNonce }, "continuing from the chain's nonce because of ADOPT_NONCE");
      await resetLane(store, of, Math.max(chainNonce, acquired.nextNonce));
    } else if (acquired.status === "stopped") {
      return this.#stopped(acquired.reason ?? "stopped");
    } else if (chainNonce > acquired.nextNonce) {
      return this.stop("the chain has seen transactions of this key that this database has not");
    }
    this.#status = "running";
    return true;
  }

  /** Stops the lane, until an operator has confirmed what happened to its key. */
  async stop(why: string): Promise<false> {
    const { store, of, log } = this.#options;
    await stopLane(store, of, why);
    log.error({ key: of.key, reason: why }, "lane stopped: somebody else uses its key, or the database is an old copy");
    return this.#stopped(why);
  }

  /** Forgets the lease, after a statement has found that it is lost. */
  lost(): void {
    this.#lease = undefined;
  }

  async release(): Promise<void> {
    const { store, of } = this.#options;
    if (this.#lease) await releaseLease(store, of, this.#lease.epoch);
    this.#lease = undefined;
  }

  #stopped(why: string): false {
    this.#status = "stopped";
    this.#reason = why;
    return false;
  }
}
