import { sql } from "kysely";
import type { Db, Tx } from "../db/open";
import type { SignedActsTable } from "../db/tables/subscriptions";

export async function latestAttempt(db: Db, chainId: number, actKey: string): Promise<SignedActsTable | undefined> {
  return db
    .selectFrom("signed_acts")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("act_key", "=", actKey)
    .orderBy("attempt", "desc")
    .limit(1)
    .executeTakeFirst();
}

/** Recorded instead of its name for an act that was not limited. */
export const UNLIMITED = "ended";

/** Holds back other acts of the signer until the end of the transaction: of many at once, each counts those before. */
export const lockSigner = (tx: Tx, chainId: number, signer: string) =>
  sql`select pg_advisory_xact_lock(hashtextextended(${`acts of ${signer} on ${chainId}`}::text, 0))`.execute(tx);

/** Whether an act on this object was submitted beyond the limit before. */
export async function wasUnlimited(db: Db, chainId: number, objectId: string): Promise<boolean> {
  const row = await db
    .selectFrom("signed_acts")
    .select("attempt")
    .where("chain_id", "=", chainId)
    .where("object_id", "=", objectId)
    .where("act", "=", UNLIMITED)
    .executeTakeFirst();
  return row !== undefined;
}

export async function countActsSince(db: Db, chainId: number, signer: string, sinceSec: number): Promise<number> {
  const row = await db
    .selectFrom("signed_acts")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("chain_id", "=", chainId)
    .where("signer", "=", signer)
    .where("accepted_at", ">=", sinceSec)
    .where("act", "<>", UNLIMITED)
    .executeTakeFirstOrThrow();
  return Number(row.count);
}

export async function recordAct(db: Db, act: SignedActsTable): Promise<void> {
  await db
    .insertInto("signed_acts")
    .values(act)
    .onConflict((conflict) => conflict.columns(["chain_id", "act_key", "attempt"]).doNothing())
    .execute();
}
