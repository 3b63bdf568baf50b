/**
 * Leases a key to one process, which alone may send with it. The lease is the lane's row, valid until a time of the
 * database's clock. Each takeover raises the epoch, and only the newest epoch can reserve a nonce.
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
  /** take the lease from its owner; only when a single process can open the database */
  readonly steal: boolean;
}

/** Acquires the lane's lease. @returns undefined while another process has it */
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
        // This process's own lease: the reply of the statement that acquired it was lost with the connection.
        .where(
          sql<boolean>`lanes.lease_until_ms < ${databaseNowMs} or lanes.lease_owner = ${of.owner} or ${options.steal}::boolean`,
        ),
    )
    .returning(["lease_epoch", "next_nonce", "status", "reason"])
    .executeTakeFirst();
  return row && { epoch: row.lease_epoch, nextNonce: row.next_nonce, status: row.status, reason: row.reason };
}

/** Returns whether no other process has the lane's lease. Locks and writes nothing. */
export async function isLeaseFree(store: Store, { chainId, key, owner }: LeaseKey): Promise<boolean> {
  const held = await store.db
    .selectFrom("lanes")
    .select("lease_owner")
    .where("chain_id", "=", chainId)
    .where("key", "=", key)
    .where("lease_owner", "!=", owner)
    .where("lease_until_ms", ">=", databaseNowMs)
    .executeTakeFirst();
  return held === undefined;
}

export interface Lapsed {
  readonly key: Address;
  readonly status: Lease["status"];
}

/** Returns the lanes that no process runs, without those of the given keys. */
export async function lapsedLanes(store: Store, chainId: number, keys: readonly Address[]): Promise<Lapsed[]> {
  let query = store.db.selectFrom("lanes").select(["key", "status"]).where("chain_id", "=", chainId);
  if (keys.length > 0) query = query.where("key", "not in", [...keys]);
  // One process at a time has the embedded database: a lease in it is of a process that has ended.
  if (store.kind !== "pglite") query = query.where("lease_until_ms", "<", databaseNowMs);
  const rows = await query.orderBy("key").execute();
  return rows.map(({ key, status }) => ({ key: key as Address, status }));
}

/** @returns false when another process has acquired the lease */
export async function renewLease(db: Db, of: LeaseKey, epoch: number, lifeMs: number): Promise<boolean> {
  const result = await db
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
 * Reserves `count` nonces, if the lease is valid. The row stays locked until the transaction ends.
 * @returns the first nonce, or undefined when the lease is lost or the lane stopped
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

/** Returns the last of the nonces that the same database transaction has reserved. */
export async function returnNonces(tx: Tx, of: LeaseKey, count: number): Promise<void> {
  await tx
    .updateTable("lanes")
    .set({ next_nonce: sql<number>`next_nonce - ${count}::bigint` })
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .execute();
}

export async function stopLane(store: Store, of: LeaseKey, reason: string): Promise<void> {
  await store.db
    .updateTable("lanes")
    .set({ status: "stopped", reason })
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .execute();
}

/** Resumes from the chain's nonce, after the operator has confirmed what happened to the key. */
export async function resetLane(store: Store, of: LeaseKey, nextNonce: number): Promise<void> {
  await store.db
    .updateTable("lanes")
    .set({ status: "running", reason: null, next_nonce: nextNonce })
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .execute();
}

/**
 * Stores the lease owner's report of a lane, for the processes without keys. Stores nothing when another process has
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
