/** Runs the service until a signal, then stops it gracefully; a second signal does not wait. */
import type { FacilitatorConfig } from "../config";
import { terminalProgress } from "../progress";
import { startFacilitator } from "../start";

export async function startCommand(config: FacilitatorConfig): Promise<void> {
  let isStopping = false;
  const ended = new Promise<void>((resolve, reject) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.on(signal, () => {
        if (isStopping) process.exit(130);
        isStopping = true;
        void started.then((facilitator) => facilitator.stop()).then(resolve, reject);
      });
    }
  });
  const started = startFacilitator(config, { progress: terminalProgress() });
  await started;
  await ended;
  process.exit(0);
}
