/**
 * Watches a lane's remote key. While its service does not sign, the lane says so, and asks it outside of any database
 * transaction: what a transaction locks would wait for it.
 */
import type { Logger } from "pino";
import { createFaultLog, type FaultLog } from "../telemetry/fault-log";
import type { LaneState } from "./lane-state";
import { type DigestSigner, PROBE_DIGEST, SignerUnavailable } from "./signer";

export interface SignerWatchOptions {
  readonly signer: DigestSigner;
  readonly state: Pick<LaneState, "blocked">;
  readonly log: Logger;
  readonly monotonicMs: () => number;
}

/** A service that throttles for a moment is no obstacle. */
const PATIENCE_MS = 3_000;

export class SignerWatch {
  readonly #options: SignerWatchOptions;
  readonly #faults: FaultLog;
  #failingSinceMs: number | undefined;

  constructor(options: SignerWatchOptions) {
    this.#options = options;
    this.#faults = createFaultLog(options);
  }

  /** Runs an action that signs. @returns undefined when the key's service does not sign */
  async during<T>(act: () => Promise<T>): Promise<T | undefined> {
    const { signer, state, monotonicMs } = this.#options;
    try {
      if (this.#failingSinceMs !== undefined) await signer.signDigest(PROBE_DIGEST);
      const signed = await act();
      this.#failingSinceMs = undefined;
      this.#faults.recovered("signer");
      return signed;
    } catch (error) {
      if (!(error instanceof SignerUnavailable)) throw error;
      this.#failingSinceMs ??= monotonicMs();
      this.#faults.met("signer", error, "a relayer key cannot sign", { key: signer.address });
      if (monotonicMs() - this.#failingSinceMs >= PATIENCE_MS) state.blocked(error.message);
      return undefined;
    }
  }
}
