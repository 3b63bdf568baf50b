/** Stores rows as they were before a block, and restores them when the block is reverted. */
import { type Selectable, sql } from "kysely";
import type { Tx } from "../db/open";
import { idList } from "../db/sql";
import type { UndoTable } from "../db/tables/indexer";

export interface RestoredTable {
  readonly table: string;
  /** its key columns; a row's key is their text, joined by "/" */
  readonly key: readonly string[];
}

export interface BlockPlace {
  readonly chainId: number;
  readonly blockNumber: number;
}

/** Writes the rows that a block changed, and their former values. */
export async function changeRows(
  tx: Tx,
  { chainId, blockNumber }: BlockPlace,
  restored: RestoredTable,
  changes: readonly { readonly key: string; readonly before: object | undefined; readonly after: object | undefined }[],
): Promise<void> {
  await tx
    .insertInto("undo")
    .values(
      changes.map(({ key, before }) => ({
        chain_id: chainId,
        block_number: blockNumber,
        table_name: restored.table,
        row_key: key,
        before: before ? JSON.stringify(before) : null,
      })),
    )
    .execute();
  const rows = changes.map(({ key, after }) => ({ key, row: after }));
  await replaceRows(tx, chainId, restored, rows);
}

/** Replaces rows by key; a key without a row is deleted. */
export async function replaceRows(
  tx: Tx,
  chainId: number,
  { table, key: columns }: RestoredTable,
  changes: readonly { readonly key: string; readonly row: object | undefined }[],
): Promise<void> {
  const keyTexts = columns.map((column) => sql`${sql.ref(column)}::text`);
  await sql`delete from ${sql.table(table)} where chain_id = ${chainId}::bigint
    and concat_ws('/', ${sql.join(keyTexts)}) = any(${idList(changes.map(({ key }) => key))})`.execute(tx);
  const rows = changes.flatMap(({ row }) => (row ? [row] : []));
  if (rows.length === 0) return;
  await sql`insert into ${sql.table(table)}
    select * from jsonb_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)}::jsonb)`.execute(tx);
}

export function undoOf(tx: Tx, { chainId, blockNumber }: BlockPlace): Promise<Selectable<UndoTable>[]> {
  return tx
    .selectFrom("undo")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("block_number", "=", blockNumber)
    .execute();
}

export async function deleteUndo(tx: Tx, { chainId, blockNumber }: BlockPlace): Promise<void> {
  await tx.deleteFrom("undo").where("chain_id", "=", chainId).where("block_number", "=", blockNumber).execute();
}

/** Deletes the undo rows of final blocks, which are never reverted. */
export async function forgetUndo(tx: Tx, chainId: number, upToBlock: number): Promise<void> {
  await tx.deleteFrom("undo").where("chain_id", "=", chainId).where("block_number", "<=", upToBlock).execute();
}
