/**
 * Compares the pinned signers with those that the Facilitator names at `GET /supported`. Payments that settle through a
 * Facilitator whose signer is not pinned take the payer's money and are refused here. What the Facilitator says is only
 * a warning to the provider: it never makes a proof count.
 */
import { type Address, ConfigError, isTurnpikeError, Unavailable } from "../../protocol";
import type { Settings } from "./settings";

export interface FacilitatorCheck {
  /**
   * Checks it now.
   * @throws ConfigError when the Facilitator signs with a key that is not pinned, Unavailable when it does not answer
   */
  check(): Promise<void>;
  /** Checks it once in the background, and logs what is wrong. */
  checkOnce(): void;
  /** Logs that a proof or a grant of an unpinned signer was refused; one line a minute at most. */
  refusedSigner(signer: Address): void;
}

export interface FacilitatorCheckOptions {
  readonly settings: Pick<Settings, "facilitator">;
  /** the Facilitator's current proof signer first */
  readonly proofSigners: () => Promise<readonly Address[]>;
  /** unix seconds, chain time */
  readonly nowSec: () => number;
}

const LOG_EVERY_MS = 60_000;

export function createFacilitatorCheck({ settings, proofSigners, nowSec }: FacilitatorCheckOptions): FacilitatorCheck {
  const { facilitator } = settings;
  const pinned = facilitator?.signers.list.map(({ address }) => address).join(", ") ?? "";
  let isChecked = false;
  let loggedAtMs = Number.NEGATIVE_INFINITY;

  async function check(): Promise<void> {
    // Another project's Facilitator names no proof signers.
    if (!facilitator || facilitator.signers.list.length === 0 || facilitator.trustUnsigned) return;
    const [current] = await proofSigners().catch((cause: unknown) => {
      // Where it does not serve the gate's chain, its own error says more.
      if (!isTurnpikeError(cause) || cause.reason === "network") throw cause;
      throw new Unavailable(`The Facilitator at ${facilitator.url} gave no usable answer to GET /supported.`, {
        cause,
        retryAfterSec: 2,
      });
    });
    const known = current && facilitator.signers.find(current);
    if (!current || (known && nowSec() < (known.until ?? Number.POSITIVE_INFINITY))) return;
    throw new ConfigError(
      `facilitator.signers (TURNPIKE_FACILITATOR_SIGNERS) pins ${pinned}, but the Facilitator at ${facilitator.url} signs with ${current}: payments would settle, and their proofs would be refused here. Check with the Facilitator's operator which address is right, then pin it`,
    );
  }

  return {
    check,
    checkOnce() {
      if (isChecked) return;
      isChecked = true;
      check().catch((error: unknown) => {
        if (!isTurnpikeError(error)) throw error;
        if (error.code === "ConfigError") process.emitWarning(`${error.message}.`, "ConfigError");
        else process.emitWarning(`${error.message} No payment can settle until it answers.`);
      });
    },
    refusedSigner(signer) {
      const nowMs = performance.now();
      if (nowMs - loggedAtMs < LOG_EVERY_MS) return;
      loggedAtMs = nowMs;
      process.emitWarning(
        `A payment proof was refused: ${signer} signed it, and facilitator.signers pins ${pinned}. If that is your Facilitator's signer, payers pay and are not served.`,
      );
    },
  };
}
