/**
 * Who may send with a key. One process holds the lane's row until a time by the database's clock; every taking over
 * raises the epoch, and a nonce can only be reserved under the newest one.
 */
import { sql } from "kysely";
import type { Address } from "turnpike/protocol";
import type { Db, Store, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { LaneReportsTable } from "../db/tables/relayer";

export interface Lease {
  readonly epoch: number;
  readonly nextNonce: number;
  readonly status: "running" | "stopped";
  readonly reason: string | null;
}

export interface LeaseKey {
  readonly chainId: number;
  readonly key: Address;
  readonly owner: string;
}

export interface AcquireOptions {
  readonly lifeMs: number;
  /** first nonce of a key that this database has never used */
  readonly firstNonce: number;
  /** take it from its holder: where one process at most has the database open */
  readonly steal: boolean;
}

/** @returns undefined while another process holds the lane */
export async function acquireLease(store: Store, of: LeaseKey, options: AcquireOptions): Promise<Lease | undefined> {
  const row = await store.db
    .insertInto("lanes")
    .values({
      chain_id: of.chainId,
      key: of.key,
      lease_owner: of.owner,
      lease_epoch: 1,
      lease_until_ms: sql<number>`${databaseNowMs} + ${options.lifeMs}::bigint`,
      next_nonce: options.firstNonce,
      status: "running",
      reason: null,
    })
    .onConflict((conflict) =>
      conflict
        .columns(["chain_id", "key"])
        .doUpdateSet({
          lease_owner: of.owner,
          lease_epoch: sql<number>`lanes.lease_epoch + 1`,
          lease_until_ms: sql<number>`${databaseNowMs} + ${options.lifeMs}::bigint`,
        })
        // This process's own: it was acquired by a statement whose answer was lost with its connection.
        .where(
          sql<boolean>`lanes.lease_until_ms < ${databaseNowMs} or lanes.lease_owner = ${of.owner} or ${options.steal}::boolean`,
        ),
    )
    .returning(["lease_epoch", "next_nonce", "status", "reason"])
    .executeTakeFirst();
  return row && { epoch: row.lease_epoch, nextNonce: row.next_nonce, status: row.status, reason: row.reason };
}

/** @returns false when the lease is somebody else's by now */
export async function renewLease(store: Store, of: LeaseKey, epoch: number, lifeMs: number): Promise<boolean> {
  const result = await store.db
    .updateTable("lanes")
    .set({ lease_until_ms: sql<number>`${databaseNowMs} + ${lifeMs}::bigint` })
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .where("lease_epoch", "=", epoch)
    .executeTakeFirst();
  return result.numUpdatedRows > 0n;
}

export async function releaseLease(store: Store, of: LeaseKey, epoch: number): Promise<void> {
  await store.db
    .updateTable("lanes")
    .set({ lease_until_ms: 0 })
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .where("lease_epoch", "=", epoch)
    .execute();
}

/**
 * Reserves `count` nonces, under the lease alone; the row stays locked until the transaction ends.
 * @returns the first of them, or undefined when the lease is lost or the lane stopped
 */
export async function reserveNonces(tx: Tx, of: LeaseKey, epoch: number, count: number): Promise<number | undefined> {
  const row = await tx
    .updateTable("lanes")
    .set({ next_nonce: sql<number>`next_nonce + ${count}::bigint` })
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .where("lease_epoch", "=", epoch)
    .where("status", "=", "running")
    .where(sql<boolean>`lease_until_ms > ${databaseNowMs}`)
    .returning("next_nonce")
    .executeTakeFirst();
  return row && row.next_nonce - count;
}

export async function stopLane(store: Store, of: LeaseKey, reason: string): Promise<void> {
  await store.db
    .updateTable("lanes")
    .set({ status: "stopped", reason })
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .execute();
}

/** The operator has decided that what happened to the key is known: goes on from the chain's nonce. */
export async function resetLane(store: Store, of: LeaseKey, nextNonce: number): Promise<void> {
  await store.db
    .updateTable("lanes")
    .set({ status: "running", reason: null, next_nonce: nextNonce })
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .execute();
}

/**
 * Stores what the holder of a lane reports of it, for the processes that hold no key; nothing when another process has
 * acquired the lane since `epoch`.
 */
export async function storeLaneReport(db: Db, epoch: number, report: Omit<LaneReportsTable, "at_ms">): Promise<void> {
  const { chain_id, key, balance_wei, is_balance_low, obstacle, in_flight, queued, oldest_pending_sec } = report;
  await sql`
    insert into lane_reports (chain_id, key, at_ms, balance_wei, is_balance_low, obstacle, in_flight, queued,
      oldest_pending_sec)
    select l.chain_id, l.key, ${databaseNowMs}, ${balance_wei}::numeric, ${is_balance_low}::boolean, ${obstacle}::text,
      ${in_flight}::bigint, ${queued}::bigint, ${oldest_pending_sec}::bigint
    from lanes l where l.chain_id = ${chain_id}::bigint and l.key = ${key} and l.lease_epoch = ${epoch}::bigint
    on conflict (chain_id, key) do update set at_ms = excluded.at_ms, balance_wei = excluded.balance_wei,
      is_balance_low = excluded.is_balance_low, obstacle = excluded.obstacle, in_flight = excluded.in_flight,
      queued = excluded.queued, oldest_pending_sec = excluded.oldest_pending_sec`.execute(db);
}
