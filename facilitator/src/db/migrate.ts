/**
 * Migrates the database to this release: forward only, one runner at a time, in one transaction. A database of a newer
 * release is used as it is, unless one of its migrations excludes older releases. Such a migration is refused while
 * processes run on the database.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Kysely, type RawBuilder, sql, type Transaction } from "kysely";
import { ConfigError } from "turnpike/protocol";
import { MIGRATIONS } from "./migrations";
import type { Migration } from "./migrations/migration";
import type { Tables } from "./schema";
import { databaseNowMs } from "./sql";

/** Arbitrary constant: PostgreSQL processes that start together wait for this lock. */
const LOCK = 7_402_001;

export interface MigrateOptions {
  readonly migrations?: readonly Migration[];
  /** applies a breaking migration also while processes run */
  readonly isForced?: boolean;
  /** how long a breaking migration waits for the last sign of a process that was stopped; default 15 s */
  readonly quietMs?: number;
}

const QUIET_MS = 15_000;

const LOOK_EVERY_MS = 500;

/**
 * Applies the pending migrations.
 * @returns the ids that this call applied
 * @throws ConfigError when the database is not for this release, or when processes of another one run on it
 */
export async function migrate(
  db: Kysely<Tables>,
  kind: "pglite" | "postgres",
  { migrations = MIGRATIONS, isForced = false, quietMs = QUIET_MS }: MigrateOptions = {},
): Promise<string[]> {
  const untilMs = performance.now() + quietMs;
  for (;;) {
    const outcome = await db.transaction().execute((tx) => migrateOnce(tx, kind, migrations, isForced));
    if (Array.isArray(outcome)) return outcome;
    if (performance.now() >= untilMs)
      throw new ConfigError(
        `${outcome.breaking} breaks with the release that runs on this database (${outcome.signs}): ${STOP_FIRST}; \`migrate --force\` applies it all the same`,
      );
    await sleep(LOOK_EVERY_MS);
  }
}

export const STOP_FIRST = "stop every process on the database, then run `migrate`, then start the new release";

interface Busy {
  readonly breaking: string;
  readonly signs: string;
}

async function migrateOnce(
  tx: Transaction<Tables>,
  kind: "pglite" | "postgres",
  migrations: readonly Migration[],
  isForced: boolean,
): Promise<string[] | Busy> {
  // The embedded database has a single process, because of its folder's lock; advisory locks are no mutex there.
  if (kind === "postgres") await sql`select pg_advisory_xact_lock(${LOCK})`.execute(tx);
  await sql`create table if not exists migrations (id text primary key, applied_at timestamptz not null default now())`.execute(
    tx,
  );
  await sql`alter table migrations add column if not exists breaking boolean not null default false`.execute(tx);
  await requireKnown(tx, migrations);
  const { rows } = await sql<{ id: string }>`select id from migrations`.execute(tx);
  const done = new Set(rows.map((row) => row.id));
  const pending = migrations.filter(({ id }) => !done.has(id));
  const breaking = pending.find(({ isBreaking }) => isBreaking);
  if (kind === "postgres" && breaking && !isForced) {
    const signs = await signsOfProcesses(tx, done);
    if (signs.length > 0) return { breaking: breaking.id, signs: signs.join(", ") };
  }
  for (const migration of pending) {
    for (const statement of migration.statements) await sql.raw(statement).execute(tx);
    await migration.fill?.(tx as unknown as Kysely<unknown>);
    const isBreaking = migration.isBreaking === true;
    await sql`insert into migrations (id, breaking) values (${migration.id}, ${isBreaking}::boolean)`.execute(tx);
  }
  return pending.map(({ id }) => id);
}

/** A process probes the database every 2 s, whatever its roles: those that hold lanes too. */
const PROBED_MS = 10_000;

/** Names what shows that processes run on the database. @param done the ids of the applied migrations */
async function signsOfProcesses(tx: Transaction<Tables>, done: ReadonlySet<string>): Promise<string[]> {
  const signs: [string, string, RawBuilder<{ found: boolean }>][] = [
    [
      "300-role-leases",
      "the lease of a role is held",
      sql`select exists (select from role_leases where until_ms >= ${databaseNowMs}) as found`,
    ],
    [
      "414-health",
      "a process has probed it",
      sql`select exists (select from database_probes where at_ms >= ${databaseNowMs} - ${PROBED_MS}::bigint) as found`,
    ],
  ];
  const seen: string[] = [];
  for (const [table, sign, query] of signs) {
    if (done.has(table) && (await query.execute(tx)).rows[0]?.found) seen.push(sign);
  }
  return seen;
}

/**
 * Checks that this release can run on the database's tables.
 * @throws ConfigError when a breaking migration was applied that it does not know
 */
export async function requireKnown(db: Kysely<Tables>, migrations = MIGRATIONS): Promise<void> {
  const { rows } = await sql<{ id: string }>`select id from migrations where breaking order by id`.execute(db);
  const tooNew = rows.find(({ id }) => !migrations.some((migration) => migration.id === id));
  if (!tooNew) return;
  const detail = `the database is of a newer version (it has ${tooNew.id})`;
  throw new ConfigError(`${detail}: ${NEWER_REMEDY}`, { details: { detail } });
}

export const NEWER_REMEDY = "start that version, or another database";

/** Returns this release's migrations that are not applied yet. Changes nothing. @throws ConfigError as requireKnown */
export async function pendingMigrations(db: Kysely<Tables>): Promise<readonly Migration[]> {
  const { rows: tables } = await sql<{ name: string | null }>`select to_regclass('migrations')::text as name`.execute(
    db,
  );
  if (!tables[0]?.name) return MIGRATIONS;
  await requireKnown(db);
  const { rows } = await sql<{ id: string }>`select id from migrations`.execute(db);
  const done = new Set(rows.map(({ id }) => id));
  return MIGRATIONS.filter(({ id }) => !done.has(id));
}
