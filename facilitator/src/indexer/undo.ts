/** Between the database and a block's state: loads the rows that facts speak of, writes what changed, and takes it back. */
import { sql } from "kysely";
import { keepStanding } from "../analytics/active-counts";
import { keepOutcomes } from "../analytics/failed-periods";
import type { Tx } from "../db/open";
import { idList } from "../db/sql";
import type { Undone } from "../db/tables/indexer";
import { saveDue } from "../subscriptions/block-rows";
import type { SubscriptionRow } from "../subscriptions/rows";

/** Key columns of each table that a reorganisation restores row by row. */
const KEYS = {
  plans: ["plan_id"],
  operators: ["plan_id", "operator"],
  subscriptions: ["id_hash"],
  allowances: ["id_hash"],
  debits: ["id_hash", "debit_index"],
} as const satisfies Record<Exclude<Undone, "payments">, readonly string[]>;

type Restored = keyof typeof KEYS;

export const RESTORED = Object.keys(KEYS) as Restored[];

export async function replaceRows(
  tx: Tx,
  chainId: number,
  table: Restored,
  changes: readonly { readonly key: string; readonly row: object | undefined }[],
): Promise<void> {
  const columns = KEYS[table].map((column) => sql`${sql.ref(column)}::text`);
  await sql`delete from ${sql.table(table)} where chain_id = ${chainId}::bigint
    and concat_ws('/', ${sql.join(columns)}) = any(${idList(changes.map(({ key }) => key))})`.execute(tx);
  const rows = changes.flatMap(({ row }) => (row ? [row] : []));
  if (rows.length === 0) return;
  await sql`insert into ${sql.table(table)}
    select * from jsonb_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)}::jsonb)`.execute(tx);
}

/** Puts back the rows as they stood before this block. Newer blocks must have been taken back already. */
export async function undoBlock(tx: Tx, chainId: number, blockNumber: number): Promise<void> {
  const entries = await tx
    .selectFrom("undo")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("block_number", "=", blockNumber)
    .execute();
  const subscriptions = entries
    .filter(({ table_name: table }) => table === "subscriptions")
    .map((entry) => entry.row_key);
  await keepStanding(tx, chainId, subscriptions, async () => {
    for (const table of RESTORED) {
      const changes = entries
        .filter((entry) => entry.table_name === table)
        .map((entry) => ({ key: entry.row_key, row: entry.before ?? undefined }));
      if (changes.length === 0) continue;
      await replaceRows(tx, chainId, table, changes);
      if (table === "subscriptions") {
        await saveDue(
          tx,
          chainId,
          changes.map(({ key, row }) => ({ key, after: row as SubscriptionRow | undefined })),
        );
      }
    }
  });
  await keepOutcomes(tx, chainId, subscriptions);
  await tx.deleteFrom("undo").where("chain_id", "=", chainId).where("block_number", "=", blockNumber).execute();
}

/** What can no longer be reorganised away needs no way back. */
export async function forgetUndo(tx: Tx, chainId: number, upToBlock: number): Promise<void> {
  await tx.deleteFrom("undo").where("chain_id", "=", chainId).where("block_number", "<=", upToBlock).execute();
}
