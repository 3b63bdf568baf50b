/**
 * Compares the pinned signers with those that the Facilitator names at `GET /supported`. Payments that settle through a
 * Facilitator whose signer is not pinned take the payer's money and are refused here. What the Facilitator says is only
 * a warning to the provider: it never makes a proof count.
 */
import { type Address, ConfigError, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
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

/** Returns what is wrong with an address where something else than a Facilitator answers; undefined in an outage. */
function noFacilitator(url: string, error: TurnpikeError): string | undefined {
  const { status } = error.details;
  if (typeof status !== "number" || status >= 500 || status === 429) return undefined;
  return `facilitator.url (TURNPIKE_FACILITATOR_URL) is ${url}, but GET ${url}/supported answered ${said(error)}: no Facilitator is there. Set its base URL, such as ${new URL(url).origin}`;
}

/** Says in a few words what came back. */
function said({ message, details: { status, isJson } }: TurnpikeError): string {
  if (typeof status !== "number") return message.replace(/\.$/, "");
  if (status >= 300) return `HTTP ${status}`;
  return isJson === true ? `HTTP ${status}: ${message.replace(/^.*: |\.$/g, "")}` : `HTTP ${status} without JSON`;
}

export function createFacilitatorCheck({ settings, proofSigners, nowSec }: FacilitatorCheckOptions): FacilitatorCheck {
  const { facilitator } = settings;
  const pinned = facilitator?.signers.list.map(({ address }) => address).join(", ") ?? "";
  let isChecked = false;
  let isForeignWarned = false;
  let loggedAtMs = Number.NEGATIVE_INFINITY;

  async function check(): Promise<void> {
    if (!facilitator) return;
    if (facilitator.trustUnsigned) return checkForeign(facilitator.url);
    if (facilitator.signers.list.length === 0) return;
    const [current] = await proofSigners().catch((cause: unknown) => {
      // Where it does not serve the gate's chain, its own error says more.
      if (!isTurnpikeError(cause) || cause.reason === "network") throw cause;
      const problem = noFacilitator(facilitator.url, cause);
      if (problem !== undefined) throw new ConfigError(problem, { cause });
      throw new Unavailable(
        `The Facilitator at ${facilitator.url} gave no usable answer to GET /supported: ${said(cause)}. If this persists, check that it runs, and that facilitator.url (TURNPIKE_FACILITATOR_URL) is its base URL.`,
        { cause, retryAfterSec: 2 },
      );
    });
    const known = current && facilitator.signers.find(current);
    if (!current || (known && nowSec() < (known.until ?? Number.POSITIVE_INFINITY))) return;
    throw new ConfigError(
      `facilitator.signers (TURNPIKE_FACILITATOR_SIGNERS) pins ${pinned}, but the Facilitator at ${facilitator.url} signs with ${current}: payments would settle, and their proofs would be refused here. Check with the Facilitator's operator which address is right, then pin it`,
    );
  }

  /** Another project's Facilitator names no proof signers, and may ask who wants to know what it supports. */
  async function checkForeign(url: string): Promise<void> {
    try {
      await proofSigners();
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
      const { isJson, status } = error.details;
      if (isJson === true && Number(status) < 300) return;
      const problem = noFacilitator(url, error);
      if (problem !== undefined && !isForeignWarned) process.emitWarning(`${problem}.`, "ConfigError");
      isForeignWarned = true;
    }
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
