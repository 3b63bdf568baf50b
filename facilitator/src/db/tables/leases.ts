/** One row per chain that every process rewrites periodically, to verify that the database accepts reads and writes. */
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
