import { sql } from "kysely";
import type { Db } from "../db/open";

export interface BlockRow {
  readonly number: number;
  readonly hash: string;
  readonly timestamp: number;
}

/** @param atMost absent: any number */
export async function newestBlock(db: Db, chainId: number, atMost?: number): Promise<BlockRow | undefined> {
  let query = db.selectFrom("blocks").select(["number", "hash", "timestamp"]).where("chain_id", "=", chainId);
  if (atMost !== undefined) query = query.where("number", "<=", atMost);
  return query.orderBy("number", "desc").limit(1).executeTakeFirst();
}

/** Returns the highest block ever applied, also when it was reverted since. */
export async function highestBlock(db: Db, chainId: number): Promise<number | undefined> {
  const cursor = await db
    .selectFrom("cursors")
    .select("position")
    .where("chain_id", "=", chainId)
    .where("name", "=", "indexer")
    .executeTakeFirst();
  return cursor?.position;
}

export async function blockAt(db: Db, chainId: number, number: number): Promise<BlockRow | undefined> {
  return db
    .selectFrom("blocks")
    .select(["number", "hash", "timestamp"])
    .where("chain_id", "=", chainId)
    .where("number", "=", number)
    .executeTakeFirst();
}

/** Reopens transactions that were mined in another block than the applied one of that height. */
export async function unmineStrays(db: Db, chainId: number): Promise<void> {
  await sql`
    update transactions t set status = 'stored', block_number = null, block_hash = null, success = null from blocks b
    where t.chain_id = ${chainId}::bigint and t.status = 'mined' and not t.is_final
      and b.chain_id = t.chain_id and b.number = t.block_number and b.hash <> t.block_hash`.execute(db);
}
