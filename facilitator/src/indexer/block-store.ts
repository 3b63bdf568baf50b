/** Between the database and a block's state: loads the rows that facts speak of, writes what changed, and takes it back. */
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import { databaseNowMs } from "../store/database-clock";
import { idList } from "../store/lists";
import type { Tx } from "../store/open";
import { keepOutcomes } from "../store/tables/failed-periods";
import type { PaymentRow } from "../store/tables/payments";
import { plansOf } from "../store/tables/plans";
import { keepStanding } from "../store/tables/standing";
import { allowancesOf, subscriptionsOf } from "../store/tables/subscriptions";
import type { Undone } from "../store/tables/undo";
import { type BlockState, emptyState, operatorKey, type RowSet, type SubscriptionRow } from "./block-state";
import type { ChainFact } from "./facts";

/** Key columns of each table that a reorganisation restores row by row. */
const KEYS = {
  plans: ["plan_id"],
  operators: ["plan_id", "operator"],
  subscriptions: ["id_hash"],
  allowances: ["id_hash"],
  debits: ["id_hash", "debit_index"],
} as const satisfies Record<Exclude<Undone, "payments">, readonly string[]>;
type Restored = keyof typeof KEYS;
const RESTORED = Object.keys(KEYS) as Restored[];

export async function loadState(
  tx: Tx,
  chainId: number,
  facts: readonly ChainFact[],
  expired: readonly Hex[],
): Promise<BlockState> {
  const state = emptyState();
  const paymentIds = new Set<string>(expired);
  const planIds = new Set<string>();
  const idHashes = new Set<string>();
  for (const fact of facts) {
    if (fact.kind !== "turnpike") paymentIds.add(fact.paymentId);
    else {
      if ("planId" in fact.event) planIds.add(fact.event.planId);
      if ("newPlanId" in fact.event) planIds.add(fact.event.newPlanId);
      if ("idHash" in fact.event) idHashes.add(fact.event.idHash);
      if ("newIdHash" in fact.event) idHashes.add(fact.event.newIdHash);
    }
  }
  if (paymentIds.size > 0) {
    const rows = await tx
      .selectFrom("payments")
      .selectAll()
      .where("chain_id", "=", chainId)
      .where(sql<boolean>`payment_id = any(${idList(paymentIds)})`)
      .forUpdate()
      .execute();
    for (const row of rows) state.payments.load(row.payment_id, row);
  }
  if (idHashes.size > 0) {
    for (const row of await subscriptionsOf(tx, chainId, idHashes)) {
      state.subscriptions.load(row.id_hash, row);
      planIds.add(row.plan_id);
    }
    for (const row of await allowancesOf(tx, chainId, idHashes)) state.allowances.load(row.id_hash, row);
  }
  if (planIds.size > 0) {
    for (const row of await plansOf(tx, chainId, planIds)) state.plans.load(row.plan_id, row);
    const operators = await tx
      .selectFrom("operators")
      .selectAll()
      .where("chain_id", "=", chainId)
      .where(sql<boolean>`plan_id = any(${idList(planIds)})`)
      .execute();
    for (const row of operators) state.operators.load(operatorKey(row.plan_id, row.operator), row);
  }
  return state;
}

export async function saveState(tx: Tx, chainId: number, blockNumber: number, state: BlockState): Promise<void> {
  await savePayments(tx, chainId, state);
  const subscriptions = state.subscriptions.changes().map(({ key }) => key);
  await keepStanding(tx, chainId, subscriptions, async () => {
    for (const table of RESTORED) {
      const changes = (state[table] as RowSet<object>).changes();
      if (changes.length === 0) continue;
      await tx
        .insertInto("undo")
        .values(
          changes.map(({ key, before }) => ({
            chain_id: chainId,
            block_number: blockNumber,
            table_name: table,
            row_key: key,
            before: before ? JSON.stringify(before) : null,
          })),
        )
        .execute();
      await replaceRows(
        tx,
        chainId,
        table,
        changes.map(({ key, after }) => ({ key, row: after })),
      );
    }
  });
  await keepOutcomes(tx, chainId, subscriptions);
  await saveDue(tx, chainId, state.subscriptions.changes());
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

/** The facts alone: what other rooms write into the row meanwhile stays. */
async function savePayments(tx: Tx, chainId: number, state: BlockState): Promise<void> {
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

async function replaceRows(
  tx: Tx,
  chainId: number,
  table: Restored,
  changes: readonly { readonly key: string; readonly row: object | undefined }[],
): Promise<void> {
  const columns = KEYS[table].map((column) => sql`${sql.ref(column)}::text`);
  await sql`delete from ${sql.table(table)} where chain_id = ${chainId}::bigint
    and concat_ws('/', ${sql.join(columns)}) = any(${idList(changes.map(({ key }) => key))})`.execute(tx);
  const rows = changes.flatMap(({ row }) => (row ? [row] : []));
  if (rows.length === 0) return;
  await sql`insert into ${sql.table(table)}
    select * from jsonb_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)}::jsonb)`.execute(tx);
}

/** A row stands in the work list as long as its subscription will fall due; a new period starts its attempts afresh. */
async function saveDue(
  tx: Tx,
  chainId: number,
  changes: readonly { readonly key: string; readonly after: SubscriptionRow | undefined }[],
): Promise<void> {
  const due = changes.flatMap(({ after }) => (after && willFallDue(after) ? [after] : []));
  const gone = changes.filter(({ after }) => !after || !willFallDue(after)).map(({ key }) => key);
  if (gone.length > 0) {
    await sql`delete from renewal_due where chain_id = ${chainId}::bigint
      and id_hash = any(${idList(gone)})`.execute(tx);
  }
  if (due.length === 0) return;
  await tx
    .insertInto("renewal_due")
    .values(
      due.map((row) => ({
        chain_id: chainId,
        id_hash: row.id_hash,
        due_at: row.paid_through,
        paid_through: row.paid_through,
        attempts: 0,
        lease_owner: null,
        lease_until: 0,
      })),
    )
    .onConflict((conflict) =>
      conflict
        .columns(["chain_id", "id_hash"])
        .doUpdateSet((eb) => ({
          due_at: eb.ref("excluded.due_at"),
          paid_through: eb.ref("excluded.paid_through"),
          attempts: 0,
          lease_owner: null,
          lease_until: 0,
          is_ready: false,
        }))
        .whereRef("renewal_due.paid_through", "!=", "excluded.paid_through"),
    )
    .execute();
}

const willFallDue = (row: SubscriptionRow): boolean => !row.paused && !row.ending && !row.cancelled;

/** Puts back the rows as they stood before this block. Newer blocks must have been taken back already. */
export async function undoBlock(tx: Tx, chainId: number, blockNumber: number): Promise<void> {
  const entries = await tx
    .selectFrom("undo")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("block_number", "=", blockNumber)
    .execute();
  const subscriptions = entries
    .filter(({ table_name: table }) => table === "subscriptions")
    .map((entry) => entry.row_key);
  await keepStanding(tx, chainId, subscriptions, async () => {
    for (const table of RESTORED) {
      const changes = entries
        .filter((entry) => entry.table_name === table)
        .map((entry) => ({ key: entry.row_key, row: entry.before ?? undefined }));
      if (changes.length === 0) continue;
      await replaceRows(tx, chainId, table, changes);
      if (table === "subscriptions") {
        await saveDue(
          tx,
          chainId,
          changes.map(({ key, row }) => ({ key, after: row as SubscriptionRow | undefined })),
        );
      }
    }
  });
  await keepOutcomes(tx, chainId, subscriptions);
  await tx.deleteFrom("undo").where("chain_id", "=", chainId).where("block_number", "=", blockNumber).execute();
}

/** What can no longer be reorganised away needs no way back. */
export async function forgetUndo(tx: Tx, chainId: number, upToBlock: number): Promise<void> {
  await tx.deleteFrom("undo").where("chain_id", "=", chainId).where("block_number", "<=", upToBlock).execute();
}
