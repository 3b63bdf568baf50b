/** Applied blocks, newest and below: their hashes show a reorganisation. */
import type { Db } from "../open";

export interface BlocksTable {
  chain_id: number;
  number: number;
  hash: string;
  parent_hash: string;
  timestamp: number;
}

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
