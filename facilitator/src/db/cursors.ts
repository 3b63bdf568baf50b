/** How far a piece of background work has come, by name: kept with what it wrote, in the same transaction. */
import type { Tx } from "./open";

export interface Cursor {
  readonly chainId: number;
  readonly name: string;
}

/** Locks the cursor until the end of the transaction. @returns its position; undefined before the first */
export async function lockCursor(tx: Tx, { chainId, name }: Cursor): Promise<number | undefined> {
  const row = await tx
    .selectFrom("cursors")
    .select("position")
    .where("chain_id", "=", chainId)
    .where("name", "=", name)
    .forUpdate()
    .executeTakeFirst();
  return row?.position;
}

export async function moveCursor(tx: Tx, { chainId, name }: Cursor, position: number): Promise<void> {
  await tx
    .insertInto("cursors")
    .values({ chain_id: chainId, name, position })
    .onConflict((conflict) => conflict.columns(["chain_id", "name"]).doUpdateSet({ position }))
    .execute();
}
