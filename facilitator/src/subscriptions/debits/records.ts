/**
 * Reads what the rows say of debits: the owner of the subscription, the chain's debit at that index, this service's
 * attempts.
 */
import { sql } from "kysely";
import type { DebitRequest } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import type { Db, Tx } from "../../db/open";
import { databaseNowMs } from "../../db/sql";

export interface DebitRecord {
  readonly plan?: {
    readonly id: Hex;
    readonly provider: string;
    readonly token: string;
    readonly amount: string;
    readonly pay_to: string;
  };
  readonly debits: number;
  /** the debit on chain at this index */
  readonly onChain?: { readonly amount: bigint; readonly transaction: Hex; readonly blockNumber: number };
  readonly sent?: {
    readonly attempt: number;
    readonly amount: bigint;
    readonly provider: string;
    readonly transactionId: string;
    readonly closedCode: string | null;
  };
  /** an earlier debit of the same subscription is pending */
  readonly isBehind: boolean;
}

/** The bit of a right to debit. @see ITurnpike.setOperator */
const DEBIT_RIGHT = 1;

export const debitKeyOf = ({ idHash, index }: Pick<DebitRequest, "idHash" | "index">): string => `${idHash}/${index}`;

export async function findDebits(db: Db, chainId: number, items: readonly DebitRequest[]): Promise<DebitRecord[]> {
  const asked = JSON.stringify(items.map(({ idHash, index }) => ({ id: idHash, index })));
  const { rows } = await sql<{
    plan_id: Hex | null;
    provider: string;
    token: string;
    price: string;
    pay_to: string;
    debits: number | null;
    amount: string | null;
    transaction: Hex | null;
    block_number: number | string | null;
    attempt: number | null;
    sent_amount: string;
    sent_provider: string;
    transaction_id: string;
    closed_code: string | null;
    is_behind: boolean;
  }>`
    select p.plan_id, p.provider, p.token, p.amount as price, p.pay_to, a.debits, d.amount, d.transaction, d.block_number,
      r.attempt, r.amount as sent_amount, r.provider as sent_provider, r.transaction_id, r.closed_code,
      exists (select 1 from debit_requests b where b.chain_id = ${chainId}::bigint and b.id_hash = asked.id
        and b.debit_index < asked.index and b.debit_index >= coalesce(a.debits, 0) and b.closed_code is null) as is_behind
    from (select item ->> 'id' as id, (item ->> 'index')::bigint as index, place
      from jsonb_array_elements(${asked}::jsonb) with ordinality as items (item, place)) asked
    left join subscriptions s on s.chain_id = ${chainId}::bigint and s.id_hash = asked.id
    left join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id
    left join allowances a on a.chain_id = s.chain_id and a.id_hash = asked.id
    left join debits d on d.chain_id = ${chainId}::bigint and d.id_hash = asked.id and d.debit_index = asked.index
    left join lateral (select * from debit_requests n where n.chain_id = ${chainId}::bigint and n.id_hash = asked.id
      and n.debit_index = asked.index order by n.attempt desc limit 1) r on true
    order by asked.place`.execute(db);
  return rows.map((row) => ({
    ...(row.plan_id !== null && {
      plan: { id: row.plan_id, provider: row.provider, token: row.token, amount: row.price, pay_to: row.pay_to },
    }),
    debits: row.debits ?? 0,
    ...(row.transaction !== null && {
      onChain: {
        amount: BigInt(row.amount ?? 0),
        transaction: row.transaction,
        blockNumber: Number(row.block_number),
      },
    }),
    ...(row.attempt !== null && {
      sent: {
        attempt: row.attempt,
        amount: BigInt(row.sent_amount),
        provider: row.sent_provider,
        transactionId: row.transaction_id,
        closedCode: row.closed_code,
      },
    }),
    isBehind: row.is_behind,
  }));
}

/** The terms of a plan that decide about debits. */
export async function findPlan(db: Db, chainId: number, planId: Hex): Promise<DebitRecord["plan"]> {
  const row = await db
    .selectFrom("plans")
    .select(["provider", "token", "amount", "pay_to"])
    .where("chain_id", "=", chainId)
    .where("plan_id", "=", planId)
    .executeTakeFirst();
  return row && { id: planId, ...row };
}

/** Returns the relayer addresses that may not debit on the plan. */
export async function missingOperators(
  db: Db,
  chainId: number,
  planId: Hex,
  relayers: readonly Address[],
): Promise<Address[]> {
  const allowed = await db
    .selectFrom("operators")
    .select("operator")
    .where("chain_id", "=", chainId)
    .where("plan_id", "=", planId)
    .where(sql<boolean>`(rights & ${DEBIT_RIGHT}) <> 0`)
    .execute();
  const known = new Set(allowed.map((row) => row.operator));
  return relayers.filter((relayer) => !known.has(relayer));
}

export interface NewRequest extends DebitRequest {
  readonly attempt: number;
}

/** Reserves the items. @returns the reserved ones; another request may have reserved the rest first */
export async function claimIndexes(
  tx: Tx,
  { chainId, provider }: { readonly chainId: number; readonly provider: Address },
  items: readonly NewRequest[],
): Promise<NewRequest[]> {
  const inserted = await tx
    .insertInto("debit_requests")
    .values(
      items.map(({ idHash, index, amount, attempt }) => ({
        chain_id: chainId,
        id_hash: idHash,
        debit_index: index,
        attempt,
        amount: amount.toString(),
        provider,
        transaction_id: null,
        closed_code: null,
        accepted_at_ms: databaseNowMs,
      })),
    )
    .onConflict((conflict) => conflict.columns(["chain_id", "id_hash", "debit_index", "attempt"]).doNothing())
    .returning(["id_hash", "debit_index"])
    .execute();
  const taken = new Set(inserted.map((row) => `${row.id_hash}/${row.debit_index}`));
  return items.filter((item) => taken.has(debitKeyOf(item)));
}

export async function nameTransaction(
  tx: Tx,
  chainId: number,
  items: readonly NewRequest[],
  transactionId: string,
): Promise<void> {
  for (const { idHash, index, attempt } of items) {
    await tx
      .updateTable("debit_requests")
      .set({ transaction_id: transactionId })
      .where("chain_id", "=", chainId)
      .where("id_hash", "=", idHash)
      .where("debit_index", "=", index)
      .where("attempt", "=", attempt)
      .execute();
  }
}

/** Closes debits that this transaction did not execute and never can. */
export async function closeRequests(
  db: Db,
  chainId: number,
  transactionId: string,
  codes: ReadonlyMap<string, string>,
): Promise<void> {
  for (const [key, code] of codes) {
    const [idHash = "", index = ""] = key.split("/");
    await db
      .updateTable("debit_requests")
      .set({ closed_code: code })
      .where("chain_id", "=", chainId)
      .where("transaction_id", "=", transactionId)
      .where("id_hash", "=", idHash)
      .where("debit_index", "=", Number(index))
      .where("closed_code", "is", null)
      .execute();
  }
}

/** Counts a provider's debit transactions accepted within the last hour. */
export async function countBatches(db: Db, chainId: number, provider: Address): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(distinct transaction_id) as count from debit_requests
    where chain_id = ${chainId}::bigint and provider = ${provider}
      and accepted_at_ms > ${databaseNowMs} - 3600000`.execute(db);
  return Number(rows[0]?.count ?? 0);
}
