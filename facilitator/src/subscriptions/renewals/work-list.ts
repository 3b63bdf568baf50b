/**
 * Stores the work list of renewals. A row passes three states:
 * - waiting for its time, or for the end of a lease
 * - ready, with its provider and its end of grace
 * - claimed, which leases it by making it wait again
 * Each step uses an index of exactly the rows that it needs. The cost therefore does not grow with the number of
 * subscriptions or of claimed rows. A row that the indexer rewrote is not changed.
 */
import { sql } from "kysely";
import type { Db } from "../../db/open";
import type { RenewalDueTable } from "../../db/tables/subscriptions";
import type { PlanRow, SubscriptionRow } from "../rows";
import { createTurns } from "./turns";

/** The terms by which it falls due are the present plan's; a scheduled change decides what is charged, and to whom. */
export interface DuePlan extends Pick<PlanRow, "token" | "interval_sec" | "months" | "grace_sec" | "provider"> {
  /** base units, of the next charge */
  amount: string;
  pay_to: string;
}

export const DUE_PLAN = sql`p.token, p.interval_sec, p.months, p.grace_sec, p.provider,
  coalesce(n.amount, p.amount) as amount, coalesce(n.pay_to, p.pay_to) as pay_to`;

/** The plans of a subscription `s`: `p` is the present one, `n` the scheduled one, absent for most. */
export const WITH_PLANS = sql`join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id
  left join plans n on n.chain_id = s.chain_id and n.plan_id = s.next_plan_id`;

export interface ClaimedRow
  extends Pick<RenewalDueTable, "chain_id" | "id_hash" | "paid_through" | "attempts">,
    Pick<SubscriptionRow, "subscriber" | "anchor_day" | "until">,
    DuePlan {}

type Key = Pick<RenewalDueTable, "chain_id" | "id_hash" | "paid_through">;

export interface Postponement {
  readonly dueAtSec: number;
  readonly attempts: number;
}

export interface WorkList {
  /** Claims rows that are due and not leased: providers in turn, and for each the least remaining grace first. */
  claim(nowSec: number): Promise<ClaimedRow[]>;
  /** Returns when the next row becomes due or the next lease ends, as far as is known here; Infinity for never. */
  nextDueSec(): Promise<number>;
  /** Ends leases. Applies only while a row is about the same period: a renewal indexed meanwhile resets it. */
  postpone(rows: readonly (Key & Postponement)[], tx?: Db): Promise<void>;
  /** Removes rows that only an act of the subscriber can make collectable again, which adds the row back. */
  remove(rows: readonly Key[], tx?: Db): Promise<void>;
  /** Extends the leases of rows that this owner claimed and has not finished. */
  extend(nowSec: number): Promise<void>;
  /** Ends the leases of rows that this owner has not finished: another process can claim them. @returns how many */
  release(nowSec: number): Promise<number>;
}

export interface WorkListOptions {
  readonly db: Db;
  /** Extends leases; default: `db`. */
  readonly leases?: Db;
  readonly chainId: number;
  readonly owner: string;
  readonly limit: number;
  readonly leaseSec: number;
  readonly monotonicMs: () => number;
}

/** Rows made ready at once. Far more than a claim takes, so that the order holds across all due rows. */
const READY_AT_ONCE = 5_000;

/** Maximum providers that share one claim. */
const PROVIDERS_AT_ONCE = 8;

/**
 * Scans start after the last position: an old snapshot can keep dead entries in the index for hours. Other processes
 * may have added rows before that position, so a scan periodically starts from the beginning.
 */
export const LOOK_FROM_START_MS = 20_000;

export function createWorkList(options: WorkListOptions): WorkList {
  return new RenewalWorkList(options);
}

class RenewalWorkList implements WorkList {
  readonly #options: WorkListOptions;
  readonly #turns = createTurns();
  /** due time from which the waiting rows are scanned; unix seconds */
  #waitingFrom = 0;
  #fromStartAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: WorkListOptions) {
    this.#options = options;
  }

  async claim(nowSec: number): Promise<ClaimedRow[]> {
    if (this.#options.monotonicMs() >= this.#fromStartAtMs) await this.#scanFromStart();
    await this.#makeReady(nowSec);
    // A provider whose rows another process just claimed is skipped for the next ones.
    for (;;) {
      const rows = await this.#lease(nowSec);
      if (rows.length > 0 || this.#turns.isEmpty()) return rows;
    }
  }

  async nextDueSec(): Promise<number> {
    const { db, chainId } = this.#options;
    const { rows } = await sql<{ due_at: number }>`
      select due_at from renewal_due where chain_id = ${chainId}::bigint and not is_ready
        and due_at >= ${this.#waitingFrom}::bigint
      order by due_at, id_hash limit 1`.execute(db);
    return rows[0]?.due_at ?? Number.POSITIVE_INFINITY;
  }

  async postpone(rows: readonly (Key & Postponement)[], tx: Db = this.#options.db): Promise<void> {
    if (rows.length === 0) return;
    const { chainId } = this.#options;
    await sql`
      update renewal_due d set due_at = x.due_at, attempts = x.attempts, lease_owner = null, lease_until = 0,
        is_ready = false
      from unnest(${rows.map((row) => row.id_hash)}::text[], ${rows.map((row) => row.paid_through)}::bigint[],
        ${rows.map((row) => row.dueAtSec)}::bigint[], ${rows.map((row) => row.attempts)}::int[])
        as x(id_hash, paid_through, due_at, attempts)
      where d.chain_id = ${chainId}::bigint and d.id_hash = x.id_hash and d.paid_through = x.paid_through`.execute(tx);
    // Earlier than the position this process has scanned to.
    this.#waitingFrom = Math.min(this.#waitingFrom, ...rows.map((row) => row.dueAtSec));
  }

  async remove(rows: readonly Key[], tx: Db = this.#options.db): Promise<void> {
    if (rows.length === 0) return;
    const { chainId } = this.#options;
    await sql`
      delete from renewal_due d
      using unnest(${rows.map((row) => row.id_hash)}::text[], ${rows.map((row) => row.paid_through)}::bigint[])
        as x(id_hash, paid_through)
      where d.chain_id = ${chainId}::bigint and d.id_hash = x.id_hash and d.paid_through = x.paid_through`.execute(tx);
  }

  async extend(nowSec: number): Promise<void> {
    const until = nowSec + this.#options.leaseSec;
    await this.#setUnfinished({ dueAtSec: until, leaseUntilSec: until, owner: this.#options.owner });
  }

  async release(nowSec: number): Promise<number> {
    // Not before the place to which another process has scanned, by a clock that is a moment ahead.
    return this.#setUnfinished({ dueAtSec: nowSec + 1, leaseUntilSec: 0, owner: null });
  }

  /** Updates the rows that this owner has claimed. Skips rows whose outcome is being written: waiting could deadlock. */
  async #setUnfinished(to: { dueAtSec: number; leaseUntilSec: number; owner: string | null }): Promise<number> {
    const { db, leases = db, chainId, owner } = this.#options;
    const { numAffectedRows } = await sql`
      with mine as (
        select id_hash from renewal_due
        where chain_id = ${chainId}::bigint and lease_owner = ${owner}::text and not is_ready for update skip locked)
      update renewal_due d set due_at = ${to.dueAtSec}::bigint, lease_until = ${to.leaseUntilSec}::bigint,
        lease_owner = ${to.owner}::text
      from mine where d.chain_id = ${chainId}::bigint and d.id_hash = mine.id_hash`.execute(leases);
    return Number(numAffectedRows ?? 0);
  }

  async #scanFromStart(): Promise<void> {
    const { db, chainId } = this.#options;
    this.#fromStartAtMs = this.#options.monotonicMs() + LOOK_FROM_START_MS;
    this.#waitingFrom = 0;
    this.#turns.clear();
    // A stopped process may have made these ready. Reads one index entry per provider, not per row.
    const { rows } = await sql<{ provider: string }>`
      with recursive ready as (
        (select provider from renewal_due where chain_id = ${chainId}::bigint and is_ready order by provider limit 1)
        union all
        select (select d.provider from renewal_due d where d.chain_id = ${chainId}::bigint and d.is_ready
          and d.provider > ready.provider order by d.provider limit 1)
        from ready where ready.provider is not null)
      select provider from ready where provider is not null`.execute(db);
    for (const { provider } of rows) this.#turns.add(provider, 0);
  }

  /** @returns the number of rows made ready */
  async #makeReady(nowSec: number): Promise<number> {
    const { db, chainId } = this.#options;
    const { rows } = await sql<{ provider: string; grace_ends_at: number; due_at: number }>`
      with due as (
        select chain_id, id_hash from renewal_due
        where chain_id = ${chainId}::bigint and not is_ready
          and due_at >= ${this.#waitingFrom}::bigint and due_at <= ${nowSec}::bigint
        order by due_at, id_hash limit ${READY_AT_ONCE}::int for update skip locked)
      update renewal_due d set is_ready = true, lease_owner = null, lease_until = 0, provider = p.provider,
        grace_ends_at = d.paid_through + p.grace_sec
      from due join subscriptions s on s.chain_id = due.chain_id and s.id_hash = due.id_hash
        join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id
      where d.chain_id = due.chain_id and d.id_hash = due.id_hash
      returning d.provider, d.grace_ends_at, d.due_at`.execute(db);
    for (const row of rows) {
      this.#turns.add(row.provider, row.grace_ends_at);
      this.#waitingFrom = Math.max(this.#waitingFrom, row.due_at);
    }
    return rows.length;
  }

  async #lease(nowSec: number): Promise<ClaimedRow[]> {
    const { db, chainId, owner, limit, leaseSec } = this.#options;
    const ring = this.#turns.next(PROVIDERS_AT_ONCE);
    if (ring.length === 0) return [];
    const until = nowSec + leaseSec;
    const { rows } = await sql<ClaimedRow & { grace_ends_at: number }>`
      with ring as (select * from unnest(${ring.map((turn) => turn.provider)}::text[], ${ring.map((turn) => turn.fromSec)}::bigint[])
        as r(provider, from_sec)),
      offered as (
        select due.id_hash, due.grace_ends_at, row_number() over (partition by ring.provider
          order by due.grace_ends_at, due.id_hash) as place
        from ring cross join lateral (
          select id_hash, grace_ends_at from renewal_due
          where chain_id = ${chainId}::bigint and is_ready and provider = ring.provider
            and grace_ends_at >= ring.from_sec
          order by grace_ends_at, id_hash limit ${limit}::int for update skip locked) due),
      taken as (select id_hash from offered order by place, grace_ends_at, id_hash limit ${limit}::int)
      update renewal_due d set is_ready = false, due_at = ${until}::bigint, lease_owner = ${owner}::text,
        lease_until = ${until}::bigint
      from taken join subscriptions s on s.chain_id = ${chainId}::bigint and s.id_hash = taken.id_hash
        ${WITH_PLANS}
      where d.chain_id = ${chainId}::bigint and d.id_hash = taken.id_hash
      returning d.chain_id, d.id_hash, d.paid_through, d.attempts, d.grace_ends_at, s.subscriber, s.anchor_day, s.until,
        ${DUE_PLAN}`.execute(db);
    this.#turns.took(ring, rows, limit);
    return [...rows].sort((a, b) => a.grace_ends_at - b.grace_ends_at || (a.id_hash < b.id_hash ? -1 : 1));
  }
}

export async function countDue(db: Db, chainId: number, nowSec: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select (select count(*) from renewal_due where chain_id = ${chainId}::bigint and is_ready)
      + (select count(*) from renewal_due where chain_id = ${chainId}::bigint and not is_ready
        and due_at <= ${nowSec}::bigint) as count`.execute(db);
  return Number(rows[0]?.count ?? 0);
}

export interface Ahead {
  /** claimed by a runner: a transaction is pending, or its outcome is about to be stored */
  readonly underWay: number;
  /** when the next one falls due or is retried; absent when nothing waits */
  readonly nextDueSec?: number;
}

/** @param leaseSec maximum duration of a claim */
export async function lookAhead(db: Db, chainId: number, nowSec: number, leaseSec: number): Promise<Ahead> {
  const { rows } = await sql<{ under_way: string; next_due: number | null }>`
    select
      (select count(*) from renewal_due where chain_id = ${chainId}::bigint and not is_ready
        and due_at > ${nowSec}::bigint and due_at <= ${nowSec + leaseSec}::bigint and lease_owner is not null) as under_way,
      (select due_at from renewal_due where chain_id = ${chainId}::bigint and not is_ready
        and due_at > ${nowSec}::bigint and lease_owner is null order by due_at, id_hash limit 1) as next_due`.execute(
    db,
  );
  const { under_way: underWay = 0, next_due: nextDueSec = null } = rows[0] ?? {};
  return { underWay: Number(underWay), ...(nextDueSec !== null && { nextDueSec }) };
}
