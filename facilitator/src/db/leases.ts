/**
 * Leases work for which one process is enough. Valid until a time of the database's clock; without renewal, the next
 * process acquires it. A lease prevents duplicate work; correctness does not depend on it.
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { sql } from "kysely";
import { repeat, type Worker } from "../lib/loop";
import type { Store } from "./open";
import { databaseNowMs } from "./sql";

export interface RoleLease {
  readonly isHeld: boolean;
  acquire(): Promise<boolean>;
  release(): Promise<void>;
}

export interface RoleLeaseOptions {
  readonly store: Store;
  readonly chainId: number;
  /** names the work, e.g. "indexer" */
  readonly role: string;
  readonly monotonicMs?: () => number;
  /** whether this process can do the work; without, it lets its lease lapse. Default: it can */
  readonly isAble?: () => boolean;
}

/** How long the work of a killed or frozen process waits for another one. */
export const LEASE_MS = 7_000;

/** A process that is paused, or waits for a busy machine, keeps its lease for all but one of these parts. */
const RENEWALS_PER_LIFE = 6;

/** How often a waiting process looks whether a lease is free. The look locks and writes nothing. */
const LOOK_EVERY_MS = 500;

/** Renews leases on a schedule of its own: the rounds of the work may take longer than a lease lives. */
export function renewEvery(lifeMs: number, renew: () => Promise<unknown>): Worker {
  return repeat(
    // A renewal that fails is repeated, and the lease's own time says whether it is still valid.
    () => renew().then(noop, noop),
    () => new Promise((resolve) => setTimeout(resolve, lifeMs / RENEWALS_PER_LIFE).unref()),
  );
}

const noop = (): void => undefined;

export function createRoleLease(options: RoleLeaseOptions): RoleLease {
  const { store, chainId, role, isAble = () => true, monotonicMs = () => performance.now() } = options;
  const owner = `${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`;
  let lookAgainMs = Number.NEGATIVE_INFINITY;
  /** end of the lease by this process's clock, not later than by the database's; -Infinity while it is not ours */
  let untilMs = Number.NEGATIVE_INFINITY;
  let renewing: Worker | undefined;

  const isOurs = (): boolean => monotonicMs() < untilMs;

  /** Acquires or renews the lease. While another process has it, this reads a row and no more. */
  async function ask(): Promise<void> {
    const askedMs = monotonicMs();
    const { rows } = await sql`
      insert into role_leases (chain_id, role, owner, until_ms)
      select ${chainId}::bigint, ${role}::text, ${owner}::text, ${databaseNowMs} + ${LEASE_MS}::bigint
      where not exists (select from role_leases where chain_id = ${chainId}::bigint and role = ${role}::text
        and owner <> ${owner}::text and until_ms >= ${databaseNowMs})
      on conflict (chain_id, role) do update set owner = excluded.owner, until_ms = excluded.until_ms
        where role_leases.owner = excluded.owner or role_leases.until_ms < ${databaseNowMs}
      returning owner`.execute(store.leases);
    untilMs = rows.length > 0 ? askedMs + LEASE_MS : Number.NEGATIVE_INFINITY;
  }

  return {
    get isHeld() {
      return store.kind === "pglite" || isOurs();
    },
    async acquire() {
      // The embedded database has a single process, because of its folder's lock.
      if (store.kind === "pglite" || isOurs()) return true;
      if (monotonicMs() < lookAgainMs || !isAble()) return false;
      lookAgainMs = monotonicMs() + LOOK_EVERY_MS;
      await ask();
      renewing ??= renewEvery(LEASE_MS, async () => {
        if (isOurs() && isAble()) await ask();
      });
      return isOurs();
    },
    async release() {
      await renewing?.stop();
      if (!isOurs()) return;
      untilMs = Number.NEGATIVE_INFINITY;
      await store.leases
        .deleteFrom("role_leases")
        .where("chain_id", "=", chainId)
        .where("role", "=", role)
        .where("owner", "=", owner)
        .execute();
    },
  };
}

export async function holderOf(store: Store, chainId: number, role: string): Promise<string | undefined> {
  const row = await store.db
    .selectFrom("role_leases")
    .select("owner")
    .where("chain_id", "=", chainId)
    .where("role", "=", role)
    .where("until_ms", ">", databaseNowMs)
    .executeTakeFirst();
  return row?.owner;
}
