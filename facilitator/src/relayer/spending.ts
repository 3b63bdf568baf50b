/** What one key has committed to fees within the last 24 hours: a lid on what a fault or a fee spike can burn. */
import { sql } from "kysely";
import { databaseNowMs } from "../store/database-clock";
import type { Store } from "../store/open";
import type { LeaseKey } from "./lease";

const DAY_MS = 24 * 60 * 60 * 1_000;
const FRESH_MS = 30_000;
const known = new WeakMap<Store, Map<string, { wei: bigint; atMs: number }>>();

/** In wei; looked up every half minute. Mined transactions count with what they cost, others with their most. */
export async function spentToday(store: Store, of: LeaseKey, nowMs: number): Promise<bigint> {
  const byKey = known.get(store) ?? new Map<string, { wei: bigint; atMs: number }>();
  known.set(store, byKey);
  const fresh = byKey.get(of.key);
  if (fresh && nowMs - fresh.atMs < FRESH_MS) return fresh.wei;
  const { rows } = await sql<{ wei: string | null }>`
    select sum(case when t.status = 'mined' then t.gas_used * t.gas_price_wei else t.gas_limit * h.max_fee_wei end) as wei
    from transactions t join transaction_hashes h on h.hash = t.hash
    where t.chain_id = ${of.chainId} and t.key = ${of.key} and t.stored_at_ms > ${databaseNowMs} - ${DAY_MS}::bigint`.execute(
    store.db,
  );
  const wei = BigInt(rows[0]?.wei ?? 0);
  byKey.set(of.key, { wei, atMs: nowMs });
  return wei;
}
