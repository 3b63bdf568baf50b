/** Waits for a database that is down, so that a failover requires no restarts. */
import type { Logger } from "pino";
import { ConfigError } from "turnpike/protocol";
import { describeOutage, isDatabaseOutage } from "./outage";

export interface Patience {
  readonly log: Logger;
  readonly signal?: AbortSignal | undefined;
  /** milliseconds until the outage is thrown; absent: never */
  readonly limitMs?: number;
  readonly monotonicMs: () => number;
  /** receives the reason for waiting, in one sentence */
  readonly onWait?: (reason: string) => void;
}

const AGAIN_MS = 1_000;

const MESSAGE_EVERY_MS = 5_000;

/** invalid_password, invalid_authorization_specification, invalid_catalog_name: waiting does not help. */
const SETTING_STATES = new Set(["28P01", "28000", "3D000"]);

/**
 * Repeats `attempt` until it meets no outage of the database.
 * @throws ConfigError when the server rejects the URL's credentials or has no such database
 * @throws the signal's reason when it is aborted
 */
export async function untilDatabaseAnswers<T>(attempt: () => Promise<T>, patience: Patience): Promise<T> {
  const { log, signal, limitMs = Number.POSITIVE_INFINITY, monotonicMs, onWait } = patience;
  const beganMs = monotonicMs();
  let loggedMs = Number.NEGATIVE_INFINITY;
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await attempt();
    } catch (error) {
      if (signal?.aborted || !isDatabaseOutage(error)) throw error;
      const reason = describeOutage(error);
      const state = (error.cause as { code?: unknown } | undefined)?.code;
      if (typeof state === "string" && SETTING_STATES.has(state))
        throw new ConfigError(`DATABASE_URL cannot be used: ${reason}. ${remedyOf(state)}`, { cause: error });
      if (monotonicMs() - beganMs >= limitMs) throw error;
      onWait?.(`the database is unavailable: ${reason}`);
      if (monotonicMs() - loggedMs >= MESSAGE_EVERY_MS) {
        loggedMs = monotonicMs();
        const waitedSec = Math.round((loggedMs - beganMs) / 1_000);
        log.warn({ reason, waitedSec }, "the database is unavailable; the start continues when it answers");
      }
      await pause(signal);
    }
  }
}

const remedyOf = (state: string): string =>
  state === "3D000" ? "Create the database, or correct the URL." : "Correct the URL.";

function pause(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, AGAIN_MS);
    signal?.addEventListener("abort", done, { once: true });
  });
}
