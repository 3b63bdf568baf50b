/**
 * Opens the database: PostgreSQL by URL, or the embedded one in a folder that an exclusive lock guards. Same SQL and
 * same types on both: int8 as number, numeric as decimal text.
 */
import { mkdirSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";
import { Kysely, PostgresDialect, type Transaction } from "kysely";
import { Pool, types as pgTypes } from "pg";
import lockfile from "proper-lockfile";
import { ConfigError } from "turnpike/protocol";
import type { DatabaseConfig } from "../config";
import { migrate } from "./migrate";
import { sharedWake } from "./notify";
import { pglitePool } from "./pglite-pool";
import type { Tables } from "./schema";
import { createWake, type Wake } from "./wake";

export type Tx = Transaction<Tables>;
/** Either the pool or an open transaction. Inside a transaction use only the transaction: the pool would wait for it for ever. */
export type Db = Kysely<Tables>;

export interface Store {
  readonly db: Db;
  readonly kind: DatabaseConfig["kind"];
  readonly wake: Wake;
  /** migrations that were applied when it was opened */
  readonly migrated: readonly string[];
  transaction<T>(act: (tx: Tx) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** A database that is gone with the process: for comparing. */
const IN_MEMORY = "memory://";
const INT8 = 20;
const LOCK_RETRY_MS = 500;

/** Opens the database and brings it to this release's form. */
export async function openStore(database: DatabaseConfig): Promise<Store> {
  const store = await connectStore(database);
  try {
    const migrated = await migrate(store.db, database.kind);
    return { ...store, migrated };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Opens the database as it is. */
export async function connectStore(database: DatabaseConfig): Promise<Store> {
  const { pool, wake, release } = database.kind === "postgres" ? openPostgres(database) : await openPglite(database);
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  return {
    db,
    kind: database.kind,
    wake,
    migrated: [],
    transaction: (act) => db.transaction().execute(act),
    async close() {
      wake.close();
      await db.destroy();
      await release();
    },
  };
}

interface Opened {
  readonly pool: Pool;
  readonly wake: Wake;
  release(): Promise<void>;
}

function openPostgres(database: DatabaseConfig & { kind: "postgres" }): Opened {
  const pool = new Pool({
    connectionString: database.url.reveal(),
    max: database.poolSize,
    types: {
      getTypeParser: ((oid: number, format: "text" | "binary") =>
        oid === INT8 ? Number : pgTypes.getTypeParser(oid, format as "text")) as typeof pgTypes.getTypeParser,
    },
  });
  // A connection that breaks while idle is replaced by the pool; without a listener it would end the process.
  pool.on("error", () => undefined);
  const wake = sharedWake(createWake(), pool, { connectionString: database.url.reveal() });
  return { pool, wake, release: async () => undefined };
}

async function openPglite({ dir, lockMs }: DatabaseConfig & { kind: "pglite" }): Promise<Opened> {
  if (dir === IN_MEMORY) return embedded(await PGlite.create(options(dir)), async () => undefined);
  mkdirSync(dir, { recursive: true });
  let unlock: () => Promise<void>;
  try {
    unlock = await lockfile.lock(dir, {
      lockfilePath: `${dir}.lock`,
      stale: lockMs,
      update: Math.max(1_000, lockMs / 5),
      // A process that was killed leaves its lock behind, and its successor starts at once.
      retries: { retries: Math.ceil(lockMs / LOCK_RETRY_MS) + 1, minTimeout: LOCK_RETRY_MS, maxTimeout: LOCK_RETRY_MS },
    });
  } catch (cause) {
    throw new ConfigError(`PGLITE_DIR ${dir} is in use by another process: stop it, or choose another folder`, {
      cause,
    });
  }
  return embedded(await PGlite.create(options(dir)), unlock);
}

const options = (dataDir: string) => ({ dataDir, parsers: { [INT8]: Number } });

function embedded(lite: PGlite, unlock: () => Promise<void>): Opened {
  return { pool: pglitePool(lite) as unknown as Pool, wake: createWake(), release: unlock };
}
