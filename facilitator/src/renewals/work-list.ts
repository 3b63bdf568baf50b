/** The narrow table of due renewals: claimed by lease, postponed, let go. A row that the indexer rewrote is left alone. */
import { sql } from "kysely";
import type { Db } from "../store/open";
import type { PlansTable } from "../store/tables/plans";
import type { RenewalDueTable } from "../store/tables/renewal-due";

export interface Claim {
  readonly chainId: number;
  readonly owner: string;
  readonly nowSec: number;
  readonly leaseSec: number;
  readonly limit: number;
}

export type DuePlan = Pick<
  PlansTable,
  "plan_id" | "token" | "amount" | "pay_to" | "interval_sec" | "grace_sec" | "provider"
>;

export interface ClaimedRow extends RenewalDueTable, DuePlan {
  subscriber: string;
}

/** Takes what is due and not leased to another, the longest due first. */
export async function claimDue(db: Db, { chainId, owner, nowSec, leaseSec, limit }: Claim): Promise<ClaimedRow[]> {
  const claimed = await sql<{ id_hash: string }>`
    update renewal_due set lease_owner = ${owner}, lease_until = ${nowSec + leaseSec}::bigint
    where chain_id = ${chainId}::bigint and id_hash in (
      select id_hash from renewal_due
      where chain_id = ${chainId}::bigint and due_at <= ${nowSec}::bigint and lease_until <= ${nowSec}::bigint
      order by due_at limit ${limit}::int for update skip locked)
    returning id_hash`.execute(db);
  if (claimed.rows.length === 0) return [];
  return db
    .selectFrom("renewal_due as due")
    .innerJoin("subscriptions as s", (join) =>
      join.onRef("s.chain_id", "=", "due.chain_id").onRef("s.id_hash", "=", "due.id_hash"),
    )
    .innerJoin("plans as p", (join) => join.onRef("p.chain_id", "=", "s.chain_id").onRef("p.plan_id", "=", "s.plan_id"))
    .selectAll("due")
    .select([
      "s.subscriber",
      "p.plan_id",
      "p.token",
      "p.amount",
      "p.pay_to",
      "p.interval_sec",
      "p.grace_sec",
      "p.provider",
    ])
    .where("due.chain_id", "=", chainId)
    .where("due.lease_owner", "=", owner)
    .where(
      "due.id_hash",
      "in",
      claimed.rows.map((row) => row.id_hash),
    )
    .orderBy("due.due_at")
    .execute();
}

type Key = Pick<RenewalDueTable, "chain_id" | "id_hash" | "paid_through">;

export interface Postponement {
  readonly dueAtSec: number;
  readonly attempts: number;
}

/** Ends the lease. Only while the row is about the same period: a renewal seen meanwhile began it afresh. */
export async function postpone(db: Db, row: Key, { dueAtSec, attempts }: Postponement): Promise<void> {
  await db
    .updateTable("renewal_due")
    .set({ due_at: dueAtSec, attempts, lease_owner: null, lease_until: 0 })
    .where("chain_id", "=", row.chain_id)
    .where("id_hash", "=", row.id_hash)
    .where("paid_through", "=", row.paid_through)
    .execute();
}

/** Nothing can be collected any more without the subscriber, whose act would bring the row back. */
export async function letGo(db: Db, row: Key): Promise<void> {
  await db
    .deleteFrom("renewal_due")
    .where("chain_id", "=", row.chain_id)
    .where("id_hash", "=", row.id_hash)
    .where("paid_through", "=", row.paid_through)
    .execute();
}

export async function extendLeases(
  db: Db,
  { chainId, owner, untilSec }: { chainId: number; owner: string; untilSec: number },
): Promise<void> {
  await db
    .updateTable("renewal_due")
    .set({ lease_until: untilSec })
    .where("chain_id", "=", chainId)
    .where("lease_owner", "=", owner)
    .execute();
}

export async function countDue(db: Db, chainId: number, nowSec: number): Promise<number> {
  const row = await db
    .selectFrom("renewal_due")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("chain_id", "=", chainId)
    .where("due_at", "<=", nowSec)
    .executeTakeFirstOrThrow();
  return Number(row.count);
}
