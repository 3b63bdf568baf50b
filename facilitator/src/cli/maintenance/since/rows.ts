import { sql } from "kysely";
import type { Db } from "../../../db/open";
import { idList } from "../../../db/sql";
import type { EventRow } from "../../../db/tables/events";
import type { PaymentRow } from "../../../db/tables/payments";
import type { BlockRange } from "./job";

export type SettledPayment = Pick<
  PaymentRow,
  "payment_id" | "pay_to" | "amount" | "tx_hash" | "block_number" | "block_hash" | "log_index"
>;

export async function settledPayments(
  db: Db,
  chainId: number,
  { fromBlock, toBlock }: BlockRange,
  limit: number | undefined,
): Promise<readonly SettledPayment[]> {
  const { rows } = await sql<SettledPayment>`
    select payment_id, pay_to, amount, tx_hash, block_number, block_hash, log_index from payments
    where chain_id = ${chainId}::bigint and state = 'settled'
      and block_number between ${fromBlock}::bigint and ${toBlock}::bigint
    limit ${limit ?? null}::int`.execute(db);
  return rows;
}

/** Returns those of the payments that are not settled, and whose nonce must not be used. */
export async function otherPayments(
  db: Db,
  chainId: number,
  ids: readonly string[],
): Promise<readonly Pick<PaymentRow, "payment_id" | "state">[]> {
  if (ids.length === 0) return [];
  return (
    db
      .selectFrom("payments")
      .select(["payment_id", "state"])
      .where("chain_id", "=", chainId)
      .where(sql<boolean>`payment_id = any(${idList(ids)})`)
      .where("state", "<>", "settled")
      // A failure caused by a log has used its nonce.
      .where(sql<boolean>`not (state = 'failed' and fail_reason is distinct from 'expired')`)
      .execute()
  );
}

export type PlacedEvent = Pick<EventRow, "id" | "type" | "object_id" | "block_number" | "block_hash" | "log_index">;

export async function eventsOf(
  db: Db,
  chainId: number,
  { fromBlock, toBlock }: BlockRange,
): Promise<readonly PlacedEvent[]> {
  return db
    .selectFrom("events")
    .select(["id", "type", "object_id", "block_number", "block_hash", "log_index"])
    .where("chain_id", "=", chainId)
    .where("block_number", ">=", fromBlock)
    .where("block_number", "<=", toBlock)
    .where("reverted", "=", false)
    .execute();
}

/** Returns those of the events whose payment has no settled row now. One may have settled since the rows were read. */
export async function eventsWithoutPayment(
  db: Db,
  chainId: number,
  events: readonly PlacedEvent[],
): Promise<readonly PlacedEvent[]> {
  if (events.length === 0) return [];
  const rows = await db
    .selectFrom("payments")
    .select("payment_id")
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`payment_id = any(${idList(new Set(events.map(({ object_id: id }) => id)))})`)
    .where("state", "=", "settled")
    .execute();
  const settled = new Set<string>(rows.map(({ payment_id: id }) => id));
  return events.filter(({ object_id: id }) => !settled.has(id));
}
