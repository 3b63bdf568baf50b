/**
 * Migrates the database to this release: forward only, one runner at a time, in one transaction. A database of a newer
 * release is used as it is, unless one of its migrations excludes older releases.
 */
import { type Kysely, sql } from "kysely";
import { ConfigError } from "turnpike/protocol";
import { MIGRATIONS } from "./migrations";
import type { Tables } from "./schema";

/** Arbitrary constant: PostgreSQL processes that start together wait for this lock. */
const LOCK = 7_402_001;

/**
 * Applies the pending migrations.
 * @returns the ids that this call applied
 * @throws ConfigError when the database is not for this release
 */
export async function migrate(db: Kysely<Tables>, kind: "pglite" | "postgres"): Promise<string[]> {
  return db.transaction().execute(async (tx) => {
    // The embedded database has a single process, because of its folder's lock; advisory locks are no mutex there.
    if (kind === "postgres") await sql`select pg_advisory_xact_lock(${LOCK})`.execute(tx);
    await sql`create table if not exists migrations (id text primary key, applied_at timestamptz not null default now())`.execute(
      tx,
    );
    await sql`alter table migrations add column if not exists breaking boolean not null default false`.execute(tx);
    const { rows } = await sql<{ id: string; breaking: boolean }>`select id, breaking from migrations`.execute(tx);
    const done = new Set(rows.map((row) => row.id));
    const tooNew = rows.find((row) => row.breaking && !MIGRATIONS.some((migration) => migration.id === row.id));
    if (tooNew) {
      throw new ConfigError(
        `the database is of a newer version (it has ${tooNew.id}): start that version, or another database`,
      );
    }
    const applied: string[] = [];
    for (const migration of MIGRATIONS) {
      if (done.has(migration.id)) continue;
      for (const statement of migration.statements) await sql.raw(statement).execute(tx);
      await migration.fill?.(tx as unknown as Kysely<unknown>);
      const breaking = migration.isBreaking === true;
      await sql`insert into migrations (id, breaking) values (${migration.id}, ${breaking}::boolean)`.execute(tx);
      applied.push(migration.id);
    }
    return applied;
  });
}

/** Returns the ids of this release's migrations that are not applied yet. Changes nothing. */
export async function pendingMigrations(db: Kysely<Tables>): Promise<string[]> {
  const { rows: tables } = await sql<{ name: string | null }>`select to_regclass('migrations')::text as name`.execute(
    db,
  );
  if (!tables[0]?.name) return MIGRATIONS.map(({ id }) => id);
  const { rows } = await sql<{ id: string }>`select id from migrations`.execute(db);
  const done = new Set(rows.map(({ id }) => id));
  return MIGRATIONS.filter(({ id }) => !done.has(id)).map(({ id }) => id);
}
