import type { Db } from "../db/open";
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

export async function countActsSince(db: Db, chainId: number, signer: string, sinceSec: number): Promise<number> {
  const row = await db
    .selectFrom("signed_acts")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("chain_id", "=", chainId)
    .where("signer", "=", signer)
    .where("accepted_at", ">=", sinceSec)
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
