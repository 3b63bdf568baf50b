/** `facilitator reindex`: rebuilds what the chain decides, and ends. */
import type { FacilitatorConfig } from "../config";
import { createLog, secretsOf } from "../log";
import { terminalProgress } from "../progress";
import { reindex } from "../rebuild/reindex";
import { openChain } from "../relayer";
import { openStore } from "../store/open";

export async function reindexCommand(config: FacilitatorConfig, isWiped: boolean): Promise<void> {
  const log = createLog({ level: config.logLevel, secrets: secretsOf(config) });
  const chain = await openChain({ config, log });
  const store = await openStore(config.database);
  try {
    const last = await reindex({ config, store, chain, log, progress: terminalProgress(), isWiped });
    process.stdout.write(`read blocks ${config.startBlock} to ${last}\n`);
  } finally {
    await store.close();
  }
}
