/** Which process does the work of a role that one process is enough for. */
import type { ColumnType } from "kysely";

export interface RoleLeasesTable {
  chain_id: number;
  role: string;
  owner: string;
  /** unix milliseconds by the database's clock */
  until_ms: ColumnType<number, number, number>;
}
