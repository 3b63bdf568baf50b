/** Reports what a provider's own function threw to the provider, and keeps it from the client. */
import { TurnpikeError } from "../../protocol";

const LOG_EVERY_MS = 60_000;

const loggedAtMs = new Map<string, number>();

/**
 * Logs the error, each option's once a minute at most.
 * @param option as the provider wrote it, such as `free`
 * @returns what the client gets, without the error's text
 */
export function callbackFault(option: string, message: string, cause: unknown): TurnpikeError {
  const nowMs = performance.now();
  if (nowMs - (loggedAtMs.get(option) ?? Number.NEGATIVE_INFINITY) >= LOG_EVERY_MS) {
    loggedAtMs.set(option, nowMs);
    const [thrown, detail] =
      cause instanceof Error ? [`${cause.name}: ${cause.message}`, cause.stack ?? ""] : [String(cause), ""];
    process.emitWarning(`${option} failed, so its request is answered 500: ${thrown}`, {
      code: "TurnpikeCallback",
      detail,
    });
  }
  return new TurnpikeError("Internal", message, { cause });
}
