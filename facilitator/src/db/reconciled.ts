/** Keeps what the last `reconcile` of a chain found, for the metrics of every process and for operators. */
import { lockCursor, moveCursor } from "./cursors";
import type { Db } from "./open";
import { databaseNowMs } from "./sql";

interface Reconciled {
  readonly ageSec: number;
  readonly differences: number;
  /** the first of them */
  readonly first: string[];
}

const DIFFERENCES = "reconcile differences";

const AT = "reconcile at ms";

const MOST_KEPT = 10;

const MOST_LENGTH = 500;

/** @param named may be fewer than `differences` */
export async function keepReconciled(
  db: Db,
  chainId: number,
  { differences, named }: { readonly differences: number; readonly named: readonly string[] },
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await lockCursor(tx, { chainId, name: AT });
    const { now } = await tx.selectNoFrom(databaseNowMs.as("now")).executeTakeFirstOrThrow();
    await moveCursor(tx, { chainId, name: DIFFERENCES }, differences);
    await moveCursor(tx, { chainId, name: AT }, now);
    await tx.deleteFrom("reconcile_differences").where("chain_id", "=", chainId).execute();
    for (const [place, difference] of named.slice(0, MOST_KEPT).entries())
      await tx
        .insertInto("reconcile_differences")
        .values({ chain_id: chainId, place, difference: difference.slice(0, MOST_LENGTH) })
        .execute();
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
  const named = await db
    .selectFrom("reconcile_differences")
    .select("difference")
    .where("chain_id", "=", chainId)
    .orderBy("place")
    .execute();
  const ageSec = Math.max(0, Math.round((at.now - at.position) / 1_000));
  return { ageSec, differences, first: named.map(({ difference }) => difference) };
}
