/** The rows of payments that blocks change: loaded, saved, and pending again when a block is reverted. */
import { sql } from "kysely";
import type { ChainFact } from "../chain/facts";
import type { Db, Tx } from "../db/open";
import { bytes, bytesOf, databaseNowMs, idList } from "../db/sql";
import type { PaymentRow } from "../db/tables/payments";
import { chainEventId, type EventDraft } from "../events/event";
import { type BlockInput, type RevertedBlock, RowSet } from "../events/projection";
import { RefundRecords } from "./refund-records";
import { reversalEventId, timesRestored } from "./restorations";
import { UNMINED } from "./rows";
import { transferEvent, typesOf } from "./transfer-events";

export async function loadPayments(
  tx: Tx,
  { chainId, facts, expired }: Pick<BlockInput, "chainId" | "facts" | "expired">,
): Promise<RowSet<PaymentRow>> {
  const payments = new RowSet<PaymentRow>();
  const ids = new Set<string>(expired);
  for (const fact of facts) if (fact.kind !== "turnpike") ids.add(fact.paymentId);
  if (ids.size === 0) return payments;
  const rows = await tx
    .selectFrom("payments")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`payment_id = any(${idList(ids)})`)
    .forUpdate()
    .execute();
  for (const row of rows) payments.load(row.payment_id, row);
  return payments;
}

function factsOfPayment(row: PaymentRow) {
  const { payment_id, state, fail_code, fail_reason, is_reversed } = row;
  const { tx_hash, block_number, block_hash, block_time, log_index } = row;
  return {
    payment_id,
    state,
    fail_code,
    fail_reason,
    is_reversed,
    tx_hash,
    block_number,
    block_hash,
    block_time,
    log_index,
  };
}

/** Writes the columns that the chain decides; other processes may write other columns at the same time. */
export async function savePayments(tx: Tx, chainId: number, payments: readonly PaymentRow[]): Promise<void> {
  const facts = payments.map(factsOfPayment);
  if (facts.length === 0) return;
  await sql`
    update payments p set state = x.state, fail_code = x.fail_code, fail_reason = x.fail_reason,
      is_reversed = x.is_reversed, tx_hash = ${bytesOf("x.tx_hash")}, block_number = x.block_number,
      block_hash = ${bytesOf("x.block_hash")}, block_time = x.block_time, log_index = x.log_index,
      settled_at_ms = case when x.state = 'settled' then coalesce(p.settled_at_ms, ${databaseNowMs}) end
    from json_to_recordset(${JSON.stringify(facts)}::json) as x(payment_id text, state text, fail_code text,
      fail_reason text, is_reversed boolean, tx_hash text, block_number bigint, block_hash text, block_time bigint,
      log_index bigint)
    where p.chain_id = ${chainId}::bigint and p.payment_id = x.payment_id`.execute(tx);
}

export async function factsOfPayments(db: Db, chainId: number, facts: readonly ChainFact[]): Promise<ChainFact[]> {
  const ofPayments = facts.flatMap((fact) => (fact.kind === "turnpike" ? [] : [fact]));
  if (ofPayments.length === 0) return [];
  const rows = await db
    .selectFrom("payments")
    .select("payment_id")
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`payment_id = any(${idList(ofPayments.map((fact) => fact.paymentId))})`)
    .execute();
  const known = new Set<string>(rows.map((row) => row.payment_id));
  return ofPayments.filter((fact) => known.has(fact.paymentId));
}

export async function hasLivePayment(db: Db, chainId: number): Promise<boolean> {
  const live = await db
    .selectFrom("payments")
    .select("payment_id")
    .where("chain_id", "=", chainId)
    .where("state", "in", ["queued", "sent", "parked"])
    .limit(1)
    .executeTakeFirst();
  return live !== undefined;
}

/** Makes the payments of a reverted block pending again. @returns them as they were, and the reversal events */
export async function revertPayments(
  tx: Tx,
  chainId: number,
  block: RevertedBlock,
): Promise<{
  readonly rows: readonly PaymentRow[];
  readonly refunds: RefundRecords;
  readonly events: readonly EventDraft[];
}> {
  const reversed = await tx
    .selectFrom("payments")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("block_hash", "=", bytes(block.hash))
    .forUpdate()
    .execute();
  const restored = await timesRestored(
    tx,
    chainId,
    reversed.map((payment) => payment.payment_id),
  );
  await tx
    .updateTable("payments")
    .set({
      ...UNMINED,
      settled_at_ms: null,
      // The relayer sends this service's own transaction again, with the same bytes. A payment that a third party
      // settled is queued.
      state: sql<"queued" | "sent">`case when transaction_id is null then 'queued' else 'sent' end`,
      is_reversed: sql<boolean>`state = 'settled'`,
    })
    .where("chain_id", "=", chainId)
    .where("block_hash", "=", bytes(block.hash))
    .execute();
  // The block of acceptance is gone. On the other branch, a block of the same height may contain the payment's
  // transaction.
  await tx
    .updateTable("payments")
    .set({ accepted_block: block.number - 1 })
    .where("chain_id", "=", chainId)
    .where("state", "in", ["queued", "sent", "parked"])
    .where("accepted_block", ">=", block.number)
    .execute();
  const events: EventDraft[] = [];
  const refunds = await RefundRecords.load(
    tx,
    chainId,
    reversed.map((payment) => ({ ...payment, state: "sent" })),
  );
  for (const payment of reversed) {
    if (payment.state !== "settled") continue;
    const settledId = chainEventId(chainId, block.hash, payment.log_index ?? 0, typesOf(payment).settled);
    const { payload, ...event } = transferEvent({ ...payment, ...UNMINED }, "reversed", refunds);
    events.push({
      id: reversalEventId(settledId, restored.get(payment.payment_id) ?? 0),
      chainId,
      ...event,
      payload: {
        ...payload,
        status: "reversed",
        reversedTransaction: payment.tx_hash,
      },
      blockTime: block.timestamp,
      transaction: payment.tx_hash ?? undefined,
    });
  }
  return { rows: reversed, refunds, events };
}
