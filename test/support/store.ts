/** A store on a fresh database with every migration, for tests that start no Facilitator. */
import { rmSync } from "node:fs";
import { Secret } from "../../facilitator/src/config/setting";
import { openStore, type Store } from "../../facilitator/src/db/open";
import { embeddedDatabase } from "./facilitator";
import { startPostgres } from "./postgres";

/** On TEST_PG_URL, or embedded. Closing it removes the database. */
export async function freshStore(): Promise<Store> {
  return process.env.TEST_PG_URL ? onServer() : embeddedStore();
}

/** The embedded database, where a test is about it. */
export async function embeddedStore(): Promise<Store> {
  const { home, dir } = await embeddedDatabase();
  return closing(await openStore({ kind: "pglite", dir, lockMs: 10_000 }), async () =>
    rmSync(home, { recursive: true, force: true }),
  );
}

async function onServer(): Promise<Store> {
  const postgres = await startPostgres();
  const store = await openStore({ kind: "postgres", url: new Secret(await postgres.migrated()), poolSize: 4 });
  return closing(store, () => postgres.stop());
}

function closing(store: Store, remove: () => Promise<void>): Store {
  const close = async (): Promise<void> => {
    await store.close();
    await remove();
  };
  return { ...store, close };
}
