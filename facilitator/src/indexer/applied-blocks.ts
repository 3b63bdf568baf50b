import type { Db } from "../db/open";

export interface BlockRow {
  readonly number: number;
  readonly hash: string;
  readonly timestamp: number;
}

export async function newestBlock(db: Db, chainId: number): Promise<BlockRow | undefined> {
  return db
    .selectFrom("blocks")
    .select(["number", "hash", "timestamp"])
    .where("chain_id", "=", chainId)
    .orderBy("number", "desc")
    .limit(1)
    .executeTakeFirst();
}

export async function blockAt(db: Db, chainId: number, number: number): Promise<BlockRow | undefined> {
  return db
    .selectFrom("blocks")
    .select(["number", "hash", "timestamp"])
    .where("chain_id", "=", chainId)
    .where("number", "=", number)
    .executeTakeFirst();
}
