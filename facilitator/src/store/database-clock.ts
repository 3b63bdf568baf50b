/** The database's clock, which all processes that share it agree on; for leases and ages, never for chain time. */
import { sql } from "kysely";
import type { Db } from "./open";

export const databaseNowMs = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`;

export async function readDatabaseClock(db: Db): Promise<number> {
  const { rows } = await sql<{ now: number }>`select ${databaseNowMs} as now`.execute(db);
  return rows[0]?.now ?? 0;
}
