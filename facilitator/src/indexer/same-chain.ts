/** Finds out whether the chain is the one that the database has read: a development chain may have been restarted. */
import type { ChainReader } from "../chain/chain-reader";
import type { Db } from "../db/open";
import { newestBlock } from "./applied-blocks";

export interface ReadChain {
  readonly db: Db;
  readonly chain: Pick<ChainReader, "head" | "block">;
  readonly chainId: number;
}

export interface ChainMismatch {
  /** "other": not the chain that was read; "behind": its newest block is older than the newest one that was read */
  readonly kind: "other" | "behind";
  readonly detail: string;
}

export const MISMATCH_REMEDY =
  "if the chain was restarted, stop the Facilitator and run `facilitator reindex --wipe`; otherwise correct RPC_URLS";

/** @returns undefined when nothing was read yet, or all of it is on the chain. @throws Unavailable */
export async function chainMismatch({ db, chain, chainId }: ReadChain): Promise<ChainMismatch | undefined> {
  const newest = await newestBlock(db, chainId);
  if (!newest) return undefined;
  const head = await chain.head();
  const oldest = await oldestBlock(db, chainId);
  const theirs = oldest && oldest.number <= head.number ? await chain.block(oldest.number) : undefined;
  if (oldest && theirs && theirs.hash !== oldest.hash) {
    const detail = `the chain's block ${oldest.number} is not the block ${oldest.number} that this database has read: it has read another chain, to block ${newest.number}`;
    return { kind: "other", detail };
  }
  if (newest.number <= head.number) return undefined;
  const detail = `this database has read the chain to block ${newest.number}, but its newest block is ${head.number}`;
  return { kind: "behind", detail };
}

async function oldestBlock(db: Db, chainId: number): Promise<{ number: number; hash: string } | undefined> {
  return db
    .selectFrom("blocks")
    .select(["number", "hash"])
    .where("chain_id", "=", chainId)
    .orderBy("number")
    .limit(1)
    .executeTakeFirst();
}
