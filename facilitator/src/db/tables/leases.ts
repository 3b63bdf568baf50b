/** One row per chain that every process rewrites from time to time: that reading and writing work is seen, not assumed. */
import type { ColumnType } from "kysely";

export interface DatabaseProbesTable {
  chain_id: number;
  /** unix milliseconds by the database's clock */
  at_ms: number;
}

export interface RoleLeasesTable {
  chain_id: number;
  role: string;
  owner: string;
  /** unix milliseconds by the database's clock */
  until_ms: ColumnType<number, number, number>;
}
