/** Keeps what the last `reconcile` of a chain found, for the metrics of every process. */
import { lockCursor, moveCursor } from "./cursors";
import type { Db } from "./open";
import { databaseNowMs } from "./sql";

interface Reconciled {
  readonly ageSec: number;
  readonly differences: number;
}

const DIFFERENCES = "reconcile differences";

const AT = "reconcile at ms";

export async function keepReconciled(db: Db, chainId: number, differences: number): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await lockCursor(tx, { chainId, name: AT });
    const { now } = await tx.selectNoFrom(databaseNowMs.as("now")).executeTakeFirstOrThrow();
    await moveCursor(tx, { chainId, name: DIFFERENCES }, differences);
    await moveCursor(tx, { chainId, name: AT }, now);
  });
}

export async function readReconciled(db: Db, chainId: number): Promise<Reconciled | undefined> {
  const rows = await db
    .selectFrom("cursors")
    .select(["name", "position", databaseNowMs.as("now")])
    .where("chain_id", "=", chainId)
    .where("name", "in", [AT, DIFFERENCES])
    .execute();
  const at = rows.find(({ name }) => name === AT);
  if (!at) return undefined;
  const differences = rows.find(({ name }) => name === DIFFERENCES)?.position ?? 0;
  return { ageSec: Math.max(0, Math.round((at.now - at.position) / 1_000)), differences };
}
