/**
 * Computes what this service's transactions cost: gas times price, and token cents when the native coin's price is set.
 */
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import type { Db } from "../db/open";
import { bytes, databaseNowMs, idList } from "../db/sql";
import type { TransactionProjection } from "../events/projection";

export interface TransactionCost {
  readonly transaction: Hex;
  readonly purpose: string;
  readonly gasUsed: number;
  readonly gasPriceWei: string;
  readonly costWei: string;
  /** hundredths of a token; absent without NATIVE_PRICE */
  readonly costCents?: number;
  readonly payments: number;
}

export interface CostSum {
  readonly purpose: string;
  readonly transactions: number;
  readonly gas: number;
  readonly wei: number;
}

export interface Costs {
  /** @returns undefined for a transaction that is not this service's, or not mined */
  of(hash: Hex): Promise<TransactionCost | undefined>;
  ofLastDay(): Promise<readonly CostSum[]>;
  readonly nativePrice: number | undefined;
}

const WEI = 1e18;

const CENTS = 100;

const DAY_MS = 86_400_000;

export const centsOf = (wei: number, nativePrice: number): number => (wei / WEI) * nativePrice * CENTS;

export function createCosts(db: Db, chainId: number, nativePrice: number | undefined): Costs {
  return {
    nativePrice,
    async of(hash) {
      const row = await db
        .selectFrom("transactions")
        .select(["id", "purpose", "block_hash", "gas_used", "gas_price_wei"])
        .where("chain_id", "=", chainId)
        .where("id", "=", (eb) =>
          eb.selectFrom("transaction_hashes").select("transaction_id").where("transaction_hashes.hash", "=", hash),
        )
        .where("hash", "=", hash)
        .where("status", "=", "mined")
        .executeTakeFirst();
      if (!row || row.gas_used === null || row.gas_price_wei === null) return undefined;
      const paid = await db
        .selectFrom("payments")
        .select(({ fn }) => fn.countAll<number>().as("count"))
        .where("chain_id", "=", chainId)
        // Only the block is indexed.
        .where("block_hash", "=", bytes(row.block_hash ?? ""))
        .where("tx_hash", "=", bytes(hash))
        .executeTakeFirst();
      const wei = BigInt(row.gas_used) * BigInt(row.gas_price_wei);
      return {
        transaction: hash,
        purpose: row.purpose,
        gasUsed: row.gas_used,
        gasPriceWei: row.gas_price_wei,
        costWei: wei.toString(),
        ...(nativePrice !== undefined && { costCents: Number(centsOf(Number(wei), nativePrice).toPrecision(6)) }),
        payments: Number(paid?.count ?? 0),
      };
    },
    async ofLastDay() {
      const { rows } = await sql<{ purpose: string; transactions: string; gas: string; wei: string }>`
        select purpose, count(*) as transactions, sum(gas_used) as gas, sum(gas_used * gas_price_wei) as wei
        from transactions
        where chain_id = ${chainId}::bigint and status = 'mined' and stored_at_ms > ${databaseNowMs} - ${DAY_MS}::bigint
        group by purpose`.execute(db);
      return rows.map((row) => ({
        purpose: row.purpose,
        transactions: Number(row.transactions),
        gas: Number(row.gas),
        wei: Number(row.wei),
      }));
    },
  };
}

/** Items that move money. The cost of a transaction is divided by their number. */
const ITEMS = sql.raw(
  `('payment.settled', 'subscription.created', 'subscription.renewed', 'subscription.resumed', 'subscription.plan_changed', 'allowance.debited', 'refund.settled')`,
);

export const transactionCosts: TransactionProjection = { finalised: addCosts };

const SUMS = sql.raw(`count(*) as transactions, count(*) filter (where t.success is not true) as failed,
  sum(coalesce(i.items, 0)) as items, sum(t.gas_used) as gas, sum(t.gas_used * t.gas_price_wei) as wei`);

const priced = (chainId: number, ids: readonly string[]) => sql`transactions t
    left join blocks b on b.chain_id = t.chain_id and b.number = t.block_number
    left join lateral (
      select min(e.block_time) as at, count(*) as items from events e
      where e.chain_id = t.chain_id and e.block_number = t.block_number and e.transaction = t.hash and not e.reverted
        and e.type in ${ITEMS} having count(*) > 0) i on true
    where t.id = any(${idList(ids)}) and t.chain_id = ${chainId}::bigint and t.status = 'mined'
      and t.gas_used is not null and t.gas_price_wei is not null`;

const ADDED = sql.raw(`transactions = r.transactions + excluded.transactions, failed = r.failed + excluded.failed,
  items = r.items + excluded.items, gas = r.gas + excluded.gas, wei = r.wei + excluded.wei`);

async function addCosts(db: Db, chainId: number, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await sql`insert into rollup_costs as r (chain_id, bucket, purpose, transactions, failed, items, gas, wei)
    select t.chain_id, coalesce(i.at, b.timestamp, t.stored_at_ms / 1000) / 86400 * 86400, t.purpose, ${SUMS}
    from ${priced(chainId, ids)} group by 1, 2, 3
    on conflict (chain_id, bucket, purpose) do update set ${ADDED}`.execute(db);
}

/** Subtracts the costs of final transactions that are about to be reopened. Call it before their events are reverted. */
export async function removeCosts(db: Db, chainId: number, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await sql`update rollup_costs r set transactions = r.transactions - c.transactions, failed = r.failed - c.failed,
      items = r.items - c.items, gas = r.gas - c.gas, wei = r.wei - c.wei
    from (select coalesce(i.at, b.timestamp, t.stored_at_ms / 1000) / 86400 * 86400 as bucket, t.purpose, ${SUMS}
      from ${priced(chainId, ids)} group by 1, 2) c
    where r.chain_id = ${chainId}::bigint and r.bucket = c.bucket and r.purpose = c.purpose`.execute(db);
  await db.deleteFrom("rollup_costs").where("chain_id", "=", chainId).where("transactions", "=", 0).execute();
}

/** Adds the costs of transactions that are about to be deleted to the sums that \`reconcile\` compares with. */
export async function keepCosts(db: Db, chainId: number, ids: readonly string[]): Promise<void> {
  await sql`insert into pruned_costs as r (chain_id, purpose, transactions, failed, items, gas, wei)
    select t.chain_id, t.purpose, ${SUMS} from ${priced(chainId, ids)} group by 1, 2
    on conflict (chain_id, purpose) do update set ${ADDED}`.execute(db);
}
