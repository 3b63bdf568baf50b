/** Applied blocks, newest and below: their hashes show a reorganisation. */
import type { ColumnType } from "kysely";

export interface BlocksTable {
  chain_id: number;
  number: number;
  hash: string;
  parent_hash: string;
  timestamp: number;
}
/** What each applied block changed, as the rows were before it: a reorganised block is reverted from here. */
export interface UndoTable {
  chain_id: number;
  block_number: number;
  table_name: string;
  /** primary key within the table, columns joined by "/" */
  row_key: string;
  /** the row as it was; null when the block created it */
  before: ColumnType<Record<string, unknown> | null, string | null, never>;
}
