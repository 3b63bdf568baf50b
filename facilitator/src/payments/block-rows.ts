import { sql } from "kysely";
import type { ChainFact } from "../chain/facts";
import type { Store, Tx } from "../db/open";
import { databaseNowMs, idList } from "../db/sql";
import type { PaymentRow } from "../db/tables/payments";
import type { BlockState } from "../subscriptions/block-rows";

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

/** The facts alone: what other rooms write into the row meanwhile stays. */
export async function savePayments(tx: Tx, chainId: number, state: BlockState): Promise<void> {
  const facts = state.payments.changes().flatMap(({ after }) => (after ? [factsOfPayment(after)] : []));
  if (facts.length === 0) return;
  await sql`
    update payments p set state = x.state, fail_code = x.fail_code, fail_reason = x.fail_reason,
      is_reversed = x.is_reversed, tx_hash = x.tx_hash, block_number = x.block_number, block_hash = x.block_hash,
      block_time = x.block_time, log_index = x.log_index,
      settled_at_ms = case when x.state = 'settled' then coalesce(p.settled_at_ms, ${databaseNowMs}) end
    from json_to_recordset(${JSON.stringify(facts)}::json) as x(payment_id text, state text, fail_code text,
      fail_reason text, is_reversed boolean, tx_hash text, block_number bigint, block_hash text, block_time bigint,
      log_index bigint)
    where p.chain_id = ${chainId}::bigint and p.payment_id = x.payment_id`.execute(tx);
}

export async function factsThatMatter(
  store: Store,
  chainId: number,
  facts: readonly ChainFact[],
): Promise<ChainFact[]> {
  const ofTurnpike = facts.filter((fact) => fact.kind === "turnpike");
  const ofPayments = facts.flatMap((fact) => (fact.kind === "turnpike" ? [] : [fact]));
  if (ofPayments.length === 0) return ofTurnpike;
  const rows = await store.db
    .selectFrom("payments")
    .select("payment_id")
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`payment_id = any(${idList(ofPayments.map((fact) => fact.paymentId))})`)
    .execute();
  const known = new Set<string>(rows.map((row) => row.payment_id));
  return [...ofTurnpike, ...ofPayments.filter((fact) => known.has(fact.paymentId))];
}
