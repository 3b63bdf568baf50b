/** What final transactions have cost, by day and purpose. Added to once for each, when it becomes final. */
import { sql } from "kysely";
import { idList } from "../lists";
import type { Db } from "../open";

export interface RollupCostsTable {
  chain_id: number;
  /** day of the chain, unix seconds */
  bucket: number;
  purpose: string;
  transactions: number;
  /** of these, reverted */
  failed: number;
  /** payments, signups, renewals, debits that moved money in them */
  items: number;
  gas: string;
  wei: string;
}

/** What moves money, and so is an item that a transaction's cost is shared by. */
const ITEMS = sql.raw(
  `('payment.settled', 'subscription.created', 'subscription.renewed', 'subscription.resumed', 'subscription.plan_changed', 'allowance.debited')`,
);

/** @param ids of transactions that have just become final, each told once */
export async function addCosts(db: Db, chainId: number, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await sql`insert into rollup_costs as r (chain_id, bucket, purpose, transactions, failed, items, gas, wei)
    select t.chain_id, coalesce(i.at, b.timestamp, t.stored_at_ms / 1000) / 86400 * 86400, t.purpose, count(*),
      count(*) filter (where t.success is not true), sum(coalesce(i.items, 0)), sum(t.gas_used),
      sum(t.gas_used * t.gas_price_wei)
    from transactions t
    left join blocks b on b.chain_id = t.chain_id and b.number = t.block_number
    left join lateral (
      select min(e.block_time) as at, count(*) as items from events e
      where e.chain_id = t.chain_id and e.block_number = t.block_number and e.transaction = t.hash and not e.reverted
        and e.type in ${ITEMS} having count(*) > 0) i on true
    where t.id = any(${idList(ids)}) and t.chain_id = ${chainId}::bigint and t.status = 'mined'
      and t.gas_used is not null and t.gas_price_wei is not null
    group by 1, 2, 3
    on conflict (chain_id, bucket, purpose) do update set transactions = r.transactions + excluded.transactions,
      failed = r.failed + excluded.failed, items = r.items + excluded.items, gas = r.gas + excluded.gas,
      wei = r.wei + excluded.wei`.execute(db);
}
