/**
 * Opens the database: PostgreSQL by URL, or the embedded one in a folder that an exclusive lock guards. Same SQL and
 * same types on both: int8 as number, numeric as decimal text.
 */
import { mkdirSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";
import { Kysely, PostgresDialect, type Transaction } from "kysely";
import { type ClientBase, Pool, types as pgTypes } from "pg";
import lockfile from "proper-lockfile";
import { ConfigError } from "turnpike/protocol";
import type { DatabaseConfig } from "../config";
import { createNotifier, type Notifier } from "../lib/notifier";
import { type DatabaseWatch, guardPool } from "./guarded-pool";
import { migrate } from "./migrate";
import { pglitePool } from "./pglite-pool";
import type { Tables } from "./schema";
import { sharedWake } from "./shared-notifier";

export type Tx = Transaction<Tables>;

/** Either the pool or an open transaction. Inside a transaction use only the transaction: the pool would wait for it for ever. */
export type Db = Kysely<Tables>;

export interface Store {
  readonly db: Db;
  readonly kind: DatabaseConfig["kind"];
  readonly wake: Notifier;
  /** migrations that were applied when it was opened */
  readonly migrated: readonly string[];
  transaction<T>(act: (tx: Tx) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** A database that is gone with the process: for comparing. */
const IN_MEMORY = "memory://";

const INT8 = 20;

const LOCK_RETRY_MS = 500;

/** A server that does not accept a connection for so long is held to be away. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Before the first probe of a silent connection: a failover may end it without a word. */
const KEEP_ALIVE_MS = 10_000;

export interface StoreOptions {
  /**
   * Milliseconds until an unanswered statement is given up, and until the server ends a transaction that stopped
   * midway. Absent: a statement may take as long as it needs.
   */
  readonly timeoutMs?: number;
  /** receives every outage that a statement meets */
  readonly watch?: DatabaseWatch;
}

const UNWATCHED: DatabaseWatch = { failed: () => undefined };

/** Opens the database and brings it to this release's form. @throws Unavailable during an outage */
export async function openStore(database: DatabaseConfig, options: StoreOptions = {}): Promise<Store> {
  // On a server migrations run on connections without the service's limits: a large table takes its time.
  const isServer = database.kind === "postgres";
  const store = await connectStore(database, isServer ? {} : options);
  let migrated: readonly string[];
  try {
    migrated = await migrate(store.db, database.kind);
  } catch (error) {
    await store.close();
    throw error;
  }
  if (!isServer) return { ...store, migrated };
  await store.close();
  return { ...(await connectStore(database, options)), migrated };
}

/** Opens the database as it is. */
export async function connectStore(database: DatabaseConfig, options: StoreOptions = {}): Promise<Store> {
  const { pool, wake, release } =
    database.kind === "postgres" ? openPostgres(database, options) : await openPglite(database);
  const db = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: guardPool(pool, options.watch ?? UNWATCHED) }),
  });
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
  readonly wake: Notifier;
  release(): Promise<void>;
}

type PostgresConfig = DatabaseConfig & { kind: "postgres" };

function createPool({ url, poolSize }: PostgresConfig, { timeoutMs }: StoreOptions): Pool {
  const pool = new Pool({
    connectionString: url.reveal(),
    max: poolSize,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    ...(timeoutMs !== undefined && {
      query_timeout: timeoutMs,
      // Not as a startup parameter, which poolers reject.
      onConnect: (client: ClientBase) =>
        client.query(`set idle_in_transaction_session_timeout = ${timeoutMs}`).then(() => undefined),
    }),
    types: {
      getTypeParser: ((oid: number, format: "text" | "binary") =>
        oid === INT8 ? Number : pgTypes.getTypeParser(oid, format as "text")) as typeof pgTypes.getTypeParser,
    },
  });
  // Without a listener an `error` event ends the process. The pool listens to idle connections alone: a connection
  // that is lost while a caller has it needs a listener of its own. Its caller receives the error from the statement.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}

function openPostgres(database: PostgresConfig, options: StoreOptions): Opened {
  const pool = createPool(database, options);
  const wake = sharedWake(createNotifier(), pool, {
    connectionString: database.url.reveal(),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  });
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
  return { pool: pglitePool(lite) as unknown as Pool, wake: createNotifier(), release: unlock };
}
