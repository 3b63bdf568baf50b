/**
 * Deletes final transactions that are no longer needed. Their effect is on the chain and in the rows that they were
 * sent for, which keep the transaction's hash.
 */
import { sql } from "kysely";
import { lockCursor, moveCursor } from "../db/cursors";
import type { Store, Tx } from "../db/open";
import { databaseNowMs, idList } from "../db/sql";

export interface TransactionRetention {
  readonly store: Store;
  readonly chainId: number;
  /** Returns those of the transactions that something still waits for. */
  awaited(tx: Tx, ids: readonly string[]): Promise<readonly string[]>;
  /** Called in the same database transaction, before the rows are deleted. */
  onDelete(tx: Tx, ids: readonly string[]): Promise<void>;
}

const AT_ONCE = 200;

/** Name of the cursor: the `seq` up to which transactions were looked at. */
const CURSOR = "retained transactions";

/**
 * Purposes whose rows nothing refers to once they are final. The rows of others (signups, renewals, debits) are kept for
 * the requests that name them, without calldata and signed bytes.
 */
const DELETED: readonly string[] = ["settle", "gap"];

interface OldTransaction {
  readonly seq: number;
  readonly id: string;
  readonly purpose: string;
  /**
   * Its nonce was used by another transaction, or it is old, unmined and of a key that no process has. Such a row is rare,
   * and kept.
   */
  readonly is_left: boolean;
  /** old and final; later rows wait for one that is not */
  readonly is_over: boolean;
}

/**
 * Deletes a batch of final transactions that were created before `beforeMs`, oldest first.
 * @returns the number of transactions looked at; 0 when none is left
 */
export function deleteOldTransactions(
  { store, chainId, awaited, onDelete }: TransactionRetention,
  beforeMs: number,
): Promise<number> {
  return store.transaction(async (tx) => {
    const rows = await oldTransactions(tx, chainId, beforeMs);
    const waitedFor = await awaited(
      tx,
      rows.map(({ id }) => id),
    );
    const open = rows.findIndex((row) => !row.is_left && (!row.is_over || waitedFor.includes(row.id)));
    const over = open === -1 ? rows : rows.slice(0, open);
    const last = over.at(-1);
    if (!last) return 0;
    const final = over.filter((row) => !row.is_left);
    const [deleted, emptied] = [true, false].map((isDeleted) =>
      final.filter(({ purpose }) => DELETED.includes(purpose) === isDeleted).map(({ id }) => id),
    ) as [string[], string[]];
    await deleteRows(tx, deleted, onDelete);
    await emptyRows(tx, emptied);
    await moveCursor(tx, { chainId, name: CURSOR }, last.seq);
    return over.length;
  });
}

async function oldTransactions(tx: Tx, chainId: number, beforeMs: number): Promise<OldTransaction[]> {
  const position = await lockCursor(tx, { chainId, name: CURSOR });
  const { rows } = await sql<OldTransaction>`
    select t.seq, t.id, t.purpose, t.status = 'displaced' or (t.status = 'stored' and t.created_at_ms < ${beforeMs}::bigint
        and not exists (select from lanes l where l.chain_id = t.chain_id and l.key = t.key
          and l.lease_until_ms >= ${databaseNowMs})) as is_left,
      t.is_final and t.created_at_ms < ${beforeMs}::bigint as is_over
    from transactions t where t.chain_id = ${chainId}::bigint and t.seq > ${position ?? 0}::bigint
    order by t.seq limit ${AT_ONCE}::int`.execute(tx);
  return rows;
}

async function deleteRows(tx: Tx, ids: readonly string[], onDelete: TransactionRetention["onDelete"]): Promise<void> {
  if (ids.length === 0) return;
  await onDelete(tx, ids);
  await sql`delete from transaction_hashes where transaction_id = any(${idList(ids)})`.execute(tx);
  await sql`delete from transactions where id = any(${idList(ids)})`.execute(tx);
}

async function emptyRows(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await sql`update transaction_hashes set raw = '' where transaction_id = any(${idList(ids)})`.execute(tx);
  await sql`update transactions set data = '' where id = any(${idList(ids)})`.execute(tx);
}

/** Returns those of the hashes that a transaction here has. */
export async function knownHashes(tx: Tx, hashes: readonly string[]): Promise<readonly string[]> {
  const { rows } = await sql<{ hash: string }>`
    select hash from transaction_hashes where hash = any(${idList(new Set(hashes))})`.execute(tx);
  return rows.map(({ hash }) => hash);
}
