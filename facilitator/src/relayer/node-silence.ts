/** Detects that no node answers, which a lane's round cannot do while it waits for one. */
import { silentAfterMs } from "../chain/node-health";
import type { Rpc } from "../chain/rpc";
import type { FacilitatorConfig } from "../config";

export interface NodeSilenceOptions {
  readonly config: Pick<FacilitatorConfig, "blockTimeMs" | "pollMs" | "laneLeaseMs">;
  readonly nodes: Pick<Rpc, "nodes">;
  readonly monotonicMs: () => number;
}

const SILENT_CHECKS = 2;

export class NodeSilence {
  readonly #options: NodeSilenceOptions;
  /** when a round last succeeded, and how many checks in a row found that no node has answered for too long since */
  #wellMs: number;
  #silentChecks = 0;

  constructor(options: NodeSilenceOptions) {
    this.#options = options;
    this.#wellMs = options.monotonicMs();
  }

  succeeded(): void {
    this.#wellMs = this.#options.monotonicMs();
  }

  /** Checks the nodes. @returns whether they are silent, by more checks than one */
  check(): boolean {
    // A single check may be caused by a pause of this process.
    this.#silentChecks = this.#wasSilent() ? this.#silentChecks + 1 : 0;
    return this.isSilent;
  }

  /** whether the nodes were silent at the last checks */
  get isSilent(): boolean {
    return this.#silentChecks >= SILENT_CHECKS;
  }

  /**
   * Returns whether no node has answered for too long. From then on the lease is not renewed. At most its life, so that
   * a lane without nodes is left to another process in twice that time.
   */
  #wasSilent(): boolean {
    const { config, nodes, monotonicMs } = this.#options;
    const afterMs = Math.min(silentAfterMs(config), config.laneLeaseMs);
    if (monotonicMs() - this.#wellMs < afterMs) return false;
    return nodes.nodes().every(({ status, answeredSec }) => status !== "well" || (answeredSec ?? 0) * 1_000 >= afterMs);
  }
}
