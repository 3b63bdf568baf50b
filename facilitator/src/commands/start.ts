/** Runs the service until a signal, then stops it gracefully; a second signal does not wait. */
import type { FacilitatorConfig } from "../config";
import { terminalProgress } from "../progress";
import { type RunningFacilitator, startFacilitator } from "../start";

/** A signal ends a start as well as a service that is up: what has begun is stopped, and the status is 0. */
export async function startCommand(config: FacilitatorConfig): Promise<void> {
  const stopping = new AbortController();
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.on(signal, () => {
        if (stopping.signal.aborted) process.exit(130);
        stopping.abort(new Error("stopped by a signal"));
        resolve();
      });
    }
  });
  let facilitator: RunningFacilitator | undefined;
  try {
    facilitator = await startFacilitator(config, { progress: terminalProgress(), signal: stopping.signal });
  } catch (error) {
    if (error !== stopping.signal.reason) throw error;
  }
  await stopped;
  await facilitator?.stop();
  process.exit(0);
}
