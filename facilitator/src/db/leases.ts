/**
 * Leases work for which one process is enough. Valid until a time of the database's clock; without renewal, the next
 * process acquires it. A lease prevents duplicate work; correctness does not depend on it.
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { sql } from "kysely";
import type { Store } from "./open";
import { databaseNowMs } from "./sql";

export interface RoleLease {
  /** whether this process had it when it last asked */
  readonly isHeld: boolean;
  /** Acquires or renews the lease. @returns whether this process has it */
  acquire(): Promise<boolean>;
  release(): Promise<void>;
}

export interface RoleLeaseOptions {
  readonly store: Store;
  readonly chainId: number;
  /** names the work, e.g. "indexer" */
  readonly role: string;
  readonly lifeMs: number;
  readonly monotonicMs?: () => number;
}

export function createRoleLease({ store, chainId, role, lifeMs, ...options }: RoleLeaseOptions): RoleLease {
  const monotonicMs = options.monotonicMs ?? (() => performance.now());
  const owner = `${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`;
  let askAgainMs = Number.NEGATIVE_INFINITY;
  let isOurs = false;

  return {
    get isHeld() {
      return isOurs;
    },
    async acquire() {
      // The embedded database has a single process, because of its folder's lock.
      if (store.kind === "pglite") {
        isOurs = true;
        return true;
      }
      if (monotonicMs() < askAgainMs) return isOurs;
      const askedMs = monotonicMs();
      const until = sql<number>`${databaseNowMs} + ${lifeMs}::bigint`;
      const row = await store.db
        .insertInto("role_leases")
        .values({ chain_id: chainId, role, owner, until_ms: until })
        .onConflict((conflict) =>
          conflict
            .columns(["chain_id", "role"])
            .doUpdateSet({ owner, until_ms: until })
            .where(sql<boolean>`role_leases.owner = ${owner} or role_leases.until_ms < ${databaseNowMs}`),
        )
        .returning("owner")
        .executeTakeFirst();
      isOurs = row !== undefined;
      askAgainMs = askedMs + lifeMs / 3;
      return isOurs;
    },
    async release() {
      if (store.kind === "pglite" || !isOurs) return;
      isOurs = false;
      await store.db
        .deleteFrom("role_leases")
        .where("chain_id", "=", chainId)
        .where("role", "=", role)
        .where("owner", "=", owner)
        .execute();
    },
  };
}

/** Returns the current owner of a lease, by the database's clock. */
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
