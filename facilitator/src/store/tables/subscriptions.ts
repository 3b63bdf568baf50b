/** Subscriptions, their allowances and debits, as the chain's events tell them. The status is computed, never stored. */
import { sql } from "kysely";
import { idList } from "../lists";
import type { Db } from "../open";

export interface SubscriptionsTable {
  chain_id: number;
  id_hash: string;
  subscriber: string;
  plan_id: string;
  /** unix seconds, exclusive end of the paid period */
  paid_through: number;
  version: number;
  paused: boolean;
  ending: boolean;
  cancelled: boolean;
  /** where a rekeyed record went */
  moved_to: string | null;
  block_number: number;
  created_at: number;
  transaction: string;
}

export interface AllowancesTable {
  chain_id: number;
  id_hash: string;
  cap: string;
  spent: string;
  /** the paid_through that `spent` belongs to */
  cycle: number;
  debits: number;
}

export interface DebitsTable {
  chain_id: number;
  id_hash: string;
  debit_index: number;
  amount: string;
  transaction: string;
  block_number: number;
  block_time: number;
  log_index: number;
}

export function subscriptionsOf(db: Db, chainId: number, idHashes: Iterable<string>): Promise<SubscriptionsTable[]> {
  return db
    .selectFrom("subscriptions")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`id_hash = any(${idList(idHashes)})`)
    .execute();
}

export function allowancesOf(db: Db, chainId: number, idHashes: Iterable<string>): Promise<AllowancesTable[]> {
  return db
    .selectFrom("allowances")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`id_hash = any(${idList(idHashes)})`)
    .execute();
}
