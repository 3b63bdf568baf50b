/** Holds the rows that one block's facts name in memory while the rules change them, with their former contents. */
import { sql } from "kysely";
import type { ChainFact } from "../chain/facts";
import type { Tx } from "../db/open";
import { idList } from "../db/sql";
import { RowSet } from "../events/projection";
import { type BlockPlace, changeRows, deleteUndo, replaceRows, undoOf } from "../indexer/undo";
import {
  type AllowanceRow,
  allowancesOf,
  type DebitRow,
  type OperatorRow,
  operatorKey,
  type PlanRow,
  plansOf,
  type RecordProjection,
  type SubscriptionRow,
  subscriptionsOf,
} from "./rows";

export interface SubscriptionState {
  readonly plans: RowSet<PlanRow>;
  readonly operators: RowSet<OperatorRow>;
  readonly subscriptions: RowSet<SubscriptionRow>;
  readonly allowances: RowSet<AllowanceRow>;
  readonly debits: RowSet<DebitRow>;
  /** what the vouchers of signups let pay first, base units, by id hash: only within a block */
  readonly vouchers: Map<string, bigint>;
  /** the ends of signups, unix seconds, by id hash: only within a block */
  readonly ends: Map<string, number>;
}

export function emptyState(): SubscriptionState {
  return {
    plans: new RowSet(),
    operators: new RowSet(),
    subscriptions: new RowSet(),
    allowances: new RowSet(),
    debits: new RowSet(),
    vouchers: new Map(),
    ends: new Map(),
  };
}

/** The order in which rows are written and restored. */
const RESTORED = [
  { table: "plans", key: ["plan_id"] },
  { table: "operators", key: ["plan_id", "operator"] },
  { table: "subscriptions", key: ["id_hash"] },
  { table: "allowances", key: ["id_hash"] },
  { table: "debits", key: ["id_hash", "debit_index"] },
] as const satisfies readonly { readonly table: RestoredName; readonly key: readonly string[] }[];

type RestoredName = "plans" | "operators" | "subscriptions" | "allowances" | "debits";

export async function loadState(tx: Tx, chainId: number, facts: readonly ChainFact[]): Promise<SubscriptionState> {
  const state = emptyState();
  const planIds = new Set<string>();
  const idHashes = new Set<string>();
  const stopped: string[] = [];
  for (const fact of facts) {
    if (fact.kind !== "turnpike") continue;
    if (fact.event.name === "PlanEnded") stopped.push(fact.event.planId);
    if ("planId" in fact.event) planIds.add(fact.event.planId);
    if ("newPlanId" in fact.event) planIds.add(fact.event.newPlanId);
    if ("idHash" in fact.event) idHashes.add(fact.event.idHash);
    if ("newIdHash" in fact.event) idHashes.add(fact.event.newIdHash);
  }
  for (const idHash of await subscriptionsOfPlans(tx, chainId, stopped)) idHashes.add(idHash);
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

/**
 * Writes the changes of a block.
 * @param records projections of the subscriptions; the first is nearest to the change
 */
export async function saveState(
  tx: Tx,
  place: BlockPlace,
  state: SubscriptionState,
  records: readonly RecordProjection[],
): Promise<void> {
  const moved = state.plans
    .changes()
    .flatMap(({ key, before, after }) => (before && before.provider !== after?.provider ? [key] : []));
  const ofMoved = await subscriptionsOfPlans(tx, place.chainId, moved);
  const subscriptions = [...new Set([...state.subscriptions.changes().map(({ key }) => key), ...ofMoved])];
  await within(records, tx, place.chainId, subscriptions, async () => {
    for (const restored of RESTORED) {
      const changes = (state[restored.table] as RowSet<object>).changes();
      if (changes.length > 0) await changeRows(tx, place, restored, changes);
    }
  });
  await saveWork(tx, place.chainId, state.subscriptions.changes());
  const bounded = state.subscriptions
    .changes()
    .flatMap(({ before, after }) => (after && after.until !== 0 && before?.until !== after.until ? [after] : []));
  await lookAtEnds(tx, place.chainId, bounded);
}

/** Restores the rows as they were before a block. Newer blocks must have been reverted already. */
export async function revertState(tx: Tx, place: BlockPlace, records: readonly RecordProjection[]): Promise<void> {
  const { chainId } = place;
  const entries = await undoOf(tx, place);
  const changed = entries.flatMap((entry) => (entry.table_name === "subscriptions" ? [entry.row_key] : []));
  const ofMoved = await subscriptionsOfPlans(tx, chainId, await movedPlans(tx, chainId, entries));
  const subscriptions = [...new Set([...changed, ...ofMoved])];
  await within(records, tx, chainId, subscriptions, async () => {
    for (const restored of RESTORED) {
      const changes = entries
        .filter((entry) => entry.table_name === restored.table)
        .map((entry) => ({ key: entry.row_key, row: entry.before ?? undefined }));
      if (changes.length === 0) continue;
      await replaceRows(tx, chainId, restored, changes);
      if (restored.table !== "subscriptions") continue;
      const due = changes.map(({ key, row }) => ({ key, after: row as SubscriptionRow | undefined }));
      await saveWork(tx, chainId, due);
    }
  });
  await deleteUndo(tx, place);
}

/** Returns the plans whose provider is another one before the block. */
async function movedPlans(
  tx: Tx,
  chainId: number,
  entries: readonly { table_name: string; row_key: string; before: unknown }[],
): Promise<string[]> {
  const before = new Map(
    entries.flatMap((entry) =>
      entry.table_name === "plans" && entry.before ? [[entry.row_key, entry.before as PlanRow] as const] : [],
    ),
  );
  if (before.size === 0) return [];
  const now = await plansOf(tx, chainId, before.keys());
  return now.filter((plan) => before.get(plan.plan_id)?.provider !== plan.provider).map(({ plan_id }) => plan_id);
}

/** The sums by provider change for all of a plan's subscriptions when the plan goes to another provider. */
async function subscriptionsOfPlans(tx: Tx, chainId: number, planIds: readonly string[]): Promise<string[]> {
  if (planIds.length === 0) return [];
  const rows = await tx
    .selectFrom("subscriptions")
    .select("id_hash")
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`plan_id = any(${idList(planIds)})`)
    .execute();
  return rows.map((row) => row.id_hash);
}

/** Runs a change of these subscriptions inside every projection, nested. */
function within(
  records: readonly RecordProjection[],
  tx: Tx,
  chainId: number,
  idHashes: readonly string[],
  change: () => Promise<void>,
): Promise<void> {
  const all = records.reduce((inner, record) => () => record.around(tx, chainId, idHashes, inner), change);
  return all();
}

interface RecordChange {
  readonly key: string;
  readonly after: SubscriptionRow | undefined;
}

async function saveWork(tx: Tx, chainId: number, changes: readonly RecordChange[]): Promise<void> {
  await saveDue(tx, chainId, changes);
  await saveEnds(tx, chainId, changes);
}

/** Keeps a row in the work list of ends while its subscription has one. */
async function saveEnds(tx: Tx, chainId: number, changes: readonly RecordChange[]): Promise<void> {
  const bounded = changes.flatMap(({ after }) => (after && hasEnd(after) ? [after] : []));
  const gone = changes.filter(({ after }) => !after || !hasEnd(after)).map(({ key }) => key);
  if (gone.length > 0) {
    await sql`delete from subscription_ends where chain_id = ${chainId}::bigint
      and id_hash = any(${idList(gone)})`.execute(tx);
  }
  if (bounded.length === 0) return;
  await tx
    .insertInto("subscription_ends")
    .values(
      bounded.map(({ id_hash, paid_through, until }) => ({
        chain_id: chainId,
        id_hash,
        ends_at: Math.max(paid_through, until),
      })),
    )
    .onConflict((conflict) =>
      conflict.columns(["chain_id", "id_hash"]).doUpdateSet((eb) => ({ ends_at: eb.ref("excluded.ends_at") })),
    )
    .execute();
}

/** Keeps a row in the work list while its subscription can fall due. A new period resets its attempts. */
async function saveDue(tx: Tx, chainId: number, changes: readonly RecordChange[]): Promise<void> {
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

/** Brings the next look at these forward to their end: an attempt may have been postponed beyond it. */
async function lookAtEnds(tx: Tx, chainId: number, rows: readonly SubscriptionRow[]): Promise<void> {
  if (rows.length === 0) return;
  await sql`update renewal_due d set due_at = least(d.due_at, greatest(d.paid_through, s.until))
    from subscriptions s where d.chain_id = ${chainId}::bigint and d.id_hash = any(${idList(rows.map((row) => row.id_hash))})
      and s.chain_id = d.chain_id and s.id_hash = d.id_hash and not d.is_ready and d.lease_owner is null`.execute(tx);
}

const hasEnd = (row: SubscriptionRow): boolean => row.until !== 0 && !row.ending && !row.cancelled;

const willFallDue = (row: SubscriptionRow): boolean => !row.paused && !row.ending && !row.cancelled;
