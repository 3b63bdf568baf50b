/**
 * Opens the database: PostgreSQL by URL, or the embedded one in a folder that an exclusive lock guards. Both have the
 * same SQL and types: int8 as number, numeric as decimal text, bytea as hex digits.
 */
import { mkdirSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";
import { Kysely, PostgresDialect, type Transaction } from "kysely";
import { type ClientBase, Pool, types as pgTypes } from "pg";
import { type FileLock, lockFile } from "turnpike/file-lock";
import { ConfigError } from "turnpike/protocol";
import type { DatabaseConfig } from "../config";
import { createNotifier, type Notifier } from "../lib/notifier";
import { type DatabaseWatch, guardPool } from "./guarded-pool";
import { type MigrateOptions, migrate } from "./migrate";
import { pglitePool } from "./pglite-pool";
import type { Tables } from "./schema";
import { sharedNotifier } from "./shared-notifier";

export type Tx = Transaction<Tables>;

/**
 * The pool or an open transaction. Inside a transaction use only the transaction: waiting for the pool would deadlock.
 */
export type Db = Kysely<Tables>;

/**
 * What changed. `lane`: a transaction was queued or mined. `payments`: a payment was queued, or a slot is free. `block`:
 * a block was applied or reverted. `renewals`: claimed rows were released. `lanes` and `indexer` are polled only.
 */
export type StoreTopic =
  | "block"
  | "events"
  | "indexer"
  | "lane"
  | "lanes"
  | "payments"
  | "renewals"
  | `payment:${string}`
  | `tx:${string}`;

export interface PoolCount {
  readonly busy: number;
  readonly idle: number;
  readonly waiting: number;
}

export interface Store {
  readonly db: Db;
  /** One connection for leases alone: they are renewed also while the pool's connections are all in use. */
  readonly leases: Db;
  readonly kind: DatabaseConfig["kind"];
  readonly notifier: Notifier<StoreTopic>;
  readonly migrated: readonly string[];
  transaction<T>(act: (tx: Tx) => Promise<T>): Promise<T>;
  /** Counts this process's connections; undefined for the embedded database, which has one. */
  connections(): PoolCount | undefined;
  close(): Promise<void>;
}

/** Directory of a database that ends with the process, for comparisons. */
const IN_MEMORY = "memory://";

const INT8 = 20;

const BYTEA = 17;

/** Reads bytes as hex digits, as the chain's nodes and the API write them. */
function hexOfBytes(text: string): string {
  if (!text.startsWith("\\x")) throw new TypeError("the database's bytea_output is not hex: set it to hex");
  return `0x${text.slice(2)}`;
}

const PARSERS: Readonly<Record<number, (text: string) => unknown>> = { [INT8]: Number, [BYTEA]: hexOfBytes };

/** A server that does not accept a connection within this time counts as down. */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * A renewal that is not answered in this time is sent again on a new connection, before the lease ends. Long, because
 * the answer may have come to a process that is too busy to read it.
 */
const LEASE_TIMEOUT_MS = 5_000;

/** Delay before the first probe of an idle connection: a failover may end it silently. */
const KEEP_ALIVE_MS = 10_000;

export interface StoreOptions extends MigrateOptions {
  /**
   * Milliseconds until an unanswered statement fails, and until the server ends a transaction that stopped midway.
   * Absent: no limit.
   */
  readonly timeoutMs?: number;
  /** receives every outage that a statement meets */
  readonly watch?: DatabaseWatch;
}

const UNWATCHED: DatabaseWatch = { failed: () => undefined };

/** Opens the database and migrates it to this release. @throws Unavailable during an outage */
export async function openStore(database: DatabaseConfig, options: StoreOptions = {}): Promise<Store> {
  // On a server, migrations run on connections without the service's limits, because a large table takes long.
  const isServer = database.kind === "postgres";
  const store = await connectStore(database, isServer ? {} : options);
  let migrated: readonly string[];
  try {
    migrated = await migrate(store.db, database.kind, options);
  } catch (error) {
    await store.close();
    throw error;
  }
  if (!isServer) return { ...store, migrated };
  await store.close();
  return { ...(await connectStore(database, options)), migrated };
}

export async function connectStore(database: DatabaseConfig, options: StoreOptions = {}): Promise<Store> {
  const { pool, leasePool, notifier, release } =
    database.kind === "postgres" ? openPostgres(database, options) : await openPglite(database);
  const system = database.kind === "postgres" ? "postgresql" : "pglite";
  const kyselyOn = (one: Pool): Db =>
    new Kysely<Tables>({ dialect: new PostgresDialect({ pool: guardPool(one, options.watch ?? UNWATCHED, system) }) });
  const db = kyselyOn(pool);
  const leases = leasePool ? kyselyOn(leasePool) : db;
  return {
    db,
    leases,
    kind: database.kind,
    notifier,
    migrated: [],
    transaction: (act) => db.transaction().execute(act),
    connections: () => (database.kind === "postgres" ? countOf(pool) : undefined),
    async close() {
      notifier.close();
      await db.destroy();
      if (leases !== db) await leases.destroy();
      await release();
    },
  };
}

const countOf = ({ totalCount, idleCount, waitingCount }: Pool): PoolCount => ({
  busy: totalCount - idleCount,
  idle: idleCount,
  waiting: waitingCount,
});

interface Opened {
  readonly pool: Pool;
  /** absent: `pool` serves */
  readonly leasePool?: Pool;
  readonly notifier: Notifier<StoreTopic>;
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
      // Not a startup parameter, because connection poolers reject those.
      onConnect: (client: ClientBase) =>
        client.query(`set idle_in_transaction_session_timeout = ${timeoutMs}`).then(() => undefined),
    }),
    types: {
      getTypeParser: ((oid: number, format: "text" | "binary") =>
        PARSERS[oid] ?? pgTypes.getTypeParser(oid, format as "text")) as typeof pgTypes.getTypeParser,
    },
  });
  // Without a listener, an `error` event ends the process. The pool listens to idle connections only, so a connection
  // that a caller uses needs its own listener. The caller receives the error from its statement.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}

/** Leases are renewed one after the other on each; on a busy machine every statement may take a second. */
const LEASE_CONNECTIONS = 2;

function openPostgres(database: PostgresConfig, options: StoreOptions): Opened {
  const pool = createPool(database, options);
  const leasePool = createPool({ ...database, poolSize: LEASE_CONNECTIONS }, { timeoutMs: LEASE_TIMEOUT_MS });
  const notifier = sharedNotifier(createNotifier(), pool, {
    connectionString: database.url.reveal(),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  });
  return { pool, leasePool, notifier, release: async () => undefined };
}

async function openPglite({ dir, lockMs }: DatabaseConfig & { kind: "pglite" }): Promise<Opened> {
  if (dir === IN_MEMORY) return embedded(await PGlite.create(options(dir)), IN_MEMORY_LOCK);
  const lock = await lockedFolder(dir, lockMs);
  if (!lock) throw new ConfigError(`PGLITE_DIR ${dir} is in use by another process: stop it, or choose another folder`);
  return embedded(await PGlite.create(options(dir)), lock);
}

type FolderLock = Pick<FileLock, "isOwn" | "release">;

/** No other process can open it. */
const IN_MEMORY_LOCK: FolderLock = { isOwn: () => true, release: async () => undefined };

/** @returns undefined when a live process has it */
async function lockedFolder(dir: string, staleMs: number): Promise<FileLock | undefined> {
  try {
    mkdirSync(dir, { recursive: true });
    return await lockFile(dir, { staleMs, onLost: () => endWithout(dir) });
  } catch (cause) {
    const { code = "unknown error" } = cause as NodeJS.ErrnoException;
    throw new ConfigError(
      `PGLITE_DIR ${dir} cannot be locked (${code}): name a folder that this user can write to, in one that it can write to`,
      { cause },
    );
  }
}

/** Another process may write to it now, or it is gone: nothing more may be answered. */
function endWithout(dir: string): never {
  process.stderr.write(
    `ConfigError: PGLITE_DIR ${dir} was lost: its lock is gone or another process's. Restore the folder, or stop the other process, and start again\n`,
  );
  process.exit(1);
}

const options = (dataDir: string) => ({ dataDir, parsers: PARSERS });

function embedded(lite: PGlite, lock: FolderLock): Opened {
  const pool = pglitePool(lite, () => lock.isOwn()) as unknown as Pool;
  return { pool, notifier: createNotifier(), release: () => lock.release() };
}
