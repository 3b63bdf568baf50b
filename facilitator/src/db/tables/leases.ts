/** One row per chain that every process rewrites from time to time: that reading and writing work is seen, not assumed. */
import type { ColumnType } from "kysely";
import type { Db } from "../open";
import { databaseNowMs } from "../sql";

export interface DatabaseProbesTable {
  chain_id: number;
  /** unix milliseconds by the database's clock */
  at_ms: number;
}

/** Writes the row and reads it back. @throws Unavailable during an outage */
export async function probeDatabase(db: Db, chainId: number): Promise<void> {
  await db
    .insertInto("database_probes")
    .values({ chain_id: chainId, at_ms: databaseNowMs })
    .onConflict((conflict) => conflict.column("chain_id").doUpdateSet({ at_ms: databaseNowMs }))
    .returning("at_ms")
    .executeTakeFirstOrThrow();
}

export interface RoleLeasesTable {
  chain_id: number;
  role: string;
  owner: string;
  /** unix milliseconds by the database's clock */
  until_ms: ColumnType<number, number, number>;
}
