/** Brings the database to the newest form: forward only, one runner at a time, each step in a transaction of its own. */
import { type Kysely, sql } from "kysely";
import { ConfigError } from "turnpike/protocol";
import { MIGRATIONS } from "./migrations";
import type { Tables } from "./schema";

/** Any constant: PostgreSQL processes that start together queue up on it. */
const LOCK = 7_402_001;

export async function migrate(db: Kysely<Tables>, kind: "pglite" | "postgres"): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // The embedded database has one process by its folder's lock; advisory locks are no mutex there.
    if (kind === "postgres") await sql`select pg_advisory_xact_lock(${LOCK})`.execute(tx);
    await sql`create table if not exists migrations (id text primary key, applied_at timestamptz not null default now())`.execute(
      tx,
    );
    const { rows } = await sql<{ id: string }>`select id from migrations`.execute(tx);
    const done = new Set(rows.map((row) => row.id));
    const unknown = rows.find((row) => !MIGRATIONS.some((migration) => migration.id === row.id));
    if (unknown) {
      throw new ConfigError(
        `the database is of a newer version (it has ${unknown.id}): start that version, or another database`,
      );
    }
    for (const migration of MIGRATIONS) {
      if (done.has(migration.id)) continue;
      for (const statement of migration.statements) await sql.raw(statement).execute(tx);
      await sql`insert into migrations (id) values (${migration.id})`.execute(tx);
    }
  });
}
