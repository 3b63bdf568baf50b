/** Migrates the database and ends: for installations where the service may not change tables. */
import type { FacilitatorConfig } from "../config";
import { openStore } from "../store/open";

export async function migrateCommand({ database }: FacilitatorConfig): Promise<void> {
  const store = await openStore(database);
  await store.close();
  const { migrated } = store;
  const done = migrated.length > 0 ? `applied ${migrated.join(", ")}` : "the database is up to date";
  process.stdout.write(`${done}\n`);
}
