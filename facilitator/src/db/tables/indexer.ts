/** Applied blocks; their hashes show a reorganisation. */
import type { ColumnType } from "kysely";

export interface BlocksTable {
  chain_id: number;
  number: number;
  hash: string;
  parent_hash: string;
  timestamp: number;
}
/** Former values of the rows that each applied block changed; used to revert a block. */
export interface UndoTable {
  chain_id: number;
  block_number: number;
  table_name: string;
  /** primary key within the table, columns joined by "/" */
  row_key: string;
  /** the row before the block; null when the block created it */
  before: ColumnType<Record<string, unknown> | null, string | null, never>;
}
