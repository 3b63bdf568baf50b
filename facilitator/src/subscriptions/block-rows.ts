/** The rows that one block's facts speak of, held in memory while the rules change them, with what they were before. */
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import { keepStanding } from "../analytics/active-counts";
import { keepOutcomes } from "../analytics/failed-periods";
import type { ChainFact } from "../chain/facts";
import type { Tx } from "../db/open";
import { idList } from "../db/sql";
import type { PaymentRow } from "../db/tables/payments";
import { RowSet } from "../events/projection";
import { RESTORED, replaceRows } from "../indexer/undo";
import { savePayments } from "../payments/block-rows";
import {
  type AllowanceRow,
  allowancesOf,
  type DebitRow,
  type OperatorRow,
  operatorKey,
  type PlanRow,
  plansOf,
  type SubscriptionRow,
  subscriptionsOf,
} from "./rows";

export interface BlockState {
  readonly payments: RowSet<PaymentRow>;
  readonly plans: RowSet<PlanRow>;
  readonly operators: RowSet<OperatorRow>;
  readonly subscriptions: RowSet<SubscriptionRow>;
  readonly allowances: RowSet<AllowanceRow>;
  readonly debits: RowSet<DebitRow>;
}

export function emptyState(): BlockState {
  return {
    payments: new RowSet(),
    plans: new RowSet(),
    operators: new RowSet(),
    subscriptions: new RowSet(),
    allowances: new RowSet(),
    debits: new RowSet(),
  };
}

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

/** A row stands in the work list as long as its subscription will fall due; a new period starts its attempts afresh. */
export async function saveDue(
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
