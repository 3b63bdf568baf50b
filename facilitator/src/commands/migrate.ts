/** Migrates the database and ends: for installations where the service may not change tables. */
import type { FacilitatorConfig } from "../config";
import { createLog, secretsOf } from "../log";
import { openStore } from "../store/open";
import { untilDatabaseAnswers } from "../store/patience";

/** A server that is being started, or taken over by its standby, is waited for. */
const WAIT_MS = 60_000;

export async function migrateCommand(config: FacilitatorConfig): Promise<void> {
  const log = createLog({ level: config.logLevel, secrets: secretsOf(config) });
  const store = await untilDatabaseAnswers(() => openStore(config.database), {
    ...{ log, limitMs: WAIT_MS, monotonicMs: () => performance.now() },
  });
  await store.close();
  const { migrated } = store;
  const done = migrated.length > 0 ? `applied ${migrated.join(", ")}` : "the database is up to date";
  process.stdout.write(`${done}\n`);
}
