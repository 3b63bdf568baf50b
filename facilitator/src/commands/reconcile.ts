/** `facilitator reconcile`: compares the database with the chain; a status other than 0 when they differ. */
import type { FacilitatorConfig } from "../config";
import { createLog, secretsOf } from "../log";
import { terminalProgress } from "../progress";
import { reconcile } from "../rebuild/reconcile";
import { openChain } from "../relayer";
import { openStore } from "../store/open";

/** @returns the process's exit status */
export async function reconcileCommand(config: FacilitatorConfig): Promise<number> {
  const log = createLog({ level: config.logLevel, secrets: secretsOf(config) });
  const chain = await openChain({ config, log });
  const store = await openStore(config.database);
  let wrong = 0;
  try {
    for await (const difference of reconcile({ config, store, chain, log, progress: terminalProgress() })) {
      process.stdout.write(`difference: ${difference}\n`);
      wrong += 1;
    }
  } finally {
    await store.close();
  }
  process.stdout.write(wrong === 0 ? "database and chain agree\n" : `${wrong} differences\n`);
  return wrong === 0 ? 0 : 1;
}
