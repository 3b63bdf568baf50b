/** Drops the indexes of tables that are filled row by row. */
import { sql } from "kysely";
import type { Db } from "../../facilitator/src/db/open";

/** Rows are written many times faster without them. @returns the statements that create them again */
export async function dropIndexes(db: Db): Promise<string[]> {
  const { rows: constraints } = await sql<{ table: string; name: string; definition: string }>`
    select conrelid::regclass::text as table, conname as name, pg_get_constraintdef(oid) as definition from pg_constraint
    where conrelid in ('payments'::regclass, 'events'::regclass, 'subscriptions'::regclass, 'allowances'::regclass) and contype in ('p', 'u')`.execute(
    db,
  );
  for (const { table, name } of constraints) await sql.raw(`alter table ${table} drop constraint ${name}`).execute(db);
  const { rows: indexes } = await sql<{ name: string; definition: string }>`
    select indexname as name, indexdef as definition from pg_indexes where schemaname = 'public'
      and tablename in ('payments', 'events', 'subscriptions', 'allowances')`.execute(db);
  for (const { name } of indexes) await sql.raw(`drop index ${name}`).execute(db);
  return [
    ...constraints.map(({ table, name, definition }) => `alter table ${table} add constraint ${name} ${definition}`),
    ...indexes.map(({ definition }) => definition),
  ];
}
