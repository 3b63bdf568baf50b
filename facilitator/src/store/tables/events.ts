/** What happened, in the order of commit: the feed behind GET /events and the webhooks' outbox. */
import { type ColumnType, type Generated, sql } from "kysely";
import type { Tx } from "../open";
import { sumsOf } from "../rollups";
import { addSums } from "./rollups";
import { queueDeliveries } from "./webhooks";

export interface EventsTable {
  /** cursor of GET /events */
  seq: Generated<number>;
  id: string;
  chain_id: number;
  type: string;
  /** paymentId, planId or idHash */
  object_id: string;
  /** counts the events of one object, from 1 */
  sequence: number;
  /** whose plan or payee it concerns */
  provider: string | null;
  /** the payer or subscriber */
  payer: string | null;
  payload: ColumnType<Record<string, unknown>, string, string>;
  block_number: number | null;
  block_hash: string | null;
  log_index: number | null;
  /** chain time, unix seconds */
  block_time: number;
  transaction: string | null;
  /** its block was reorganised away */
  reverted: Generated<boolean>;
}

export interface EventDraft {
  readonly id: string;
  readonly chainId: number;
  readonly type: string;
  readonly objectId: string;
  readonly provider?: string | undefined;
  readonly payer?: string | undefined;
  /** the object's full state, JSON-safe */
  readonly payload: Readonly<Record<string, unknown>>;
  readonly blockTime: number;
  readonly blockNumber?: number;
  readonly blockHash?: string;
  readonly logIndex?: number;
  readonly transaction?: string | undefined;
}

/**
 * Appends events in the given order, and what they add to the sums; an id that stands already is left alone.
 * @param db a transaction: events and sums never part
 * @returns how many were new
 */
export async function appendEvents(db: Tx, all: readonly EventDraft[]): Promise<number> {
  if (all.length === 0) return 0;
  await lockFeed(db, all[0]?.chainId ?? 0);
  const standing = await db
    .selectFrom("events")
    .select("id")
    .where("chain_id", "=", all[0]?.chainId ?? 0)
    .where("id", "in", [...new Set(all.map((draft) => draft.id))])
    .execute();
  const known = new Set(standing.map((row) => row.id));
  // A number that is given out and not used would look like an event that was lost.
  const drafts = all.filter((draft) => !known.has(draft.id) && known.add(draft.id));
  if (drafts.length === 0) return 0;
  const objects = [...new Set(drafts.map((draft) => draft.objectId))];
  const counted = await db
    .selectFrom("events")
    .select(["object_id", sql<number>`max(sequence)`.as("last")])
    .where("chain_id", "=", drafts[0]?.chainId ?? 0)
    .where("object_id", "in", objects)
    .groupBy("object_id")
    .execute();
  const last = new Map(counted.map((row) => [row.object_id, Number(row.last)]));
  const rows = drafts.map((draft) => {
    const sequence = (last.get(draft.objectId) ?? 0) + 1;
    last.set(draft.objectId, sequence);
    return {
      id: draft.id,
      chain_id: draft.chainId,
      type: draft.type,
      object_id: draft.objectId,
      sequence,
      provider: draft.provider ?? null,
      payer: draft.payer ?? null,
      payload: JSON.stringify(draft.payload),
      block_number: draft.blockNumber ?? null,
      block_hash: draft.blockHash ?? null,
      log_index: draft.logIndex ?? null,
      block_time: draft.blockTime,
      transaction: draft.transaction ?? null,
    };
  });
  const added = new Set<string>();
  for (let start = 0; start < rows.length; start += 500) {
    const inserted = await db
      .insertInto("events")
      .values(rows.slice(start, start + 500))
      .onConflict((conflict) => conflict.columns(["chain_id", "id"]).doNothing())
      .returning("id")
      .execute();
    for (const { id } of inserted) added.add(id);
  }
  await addSums(db, drafts[0]?.chainId ?? 0, sumsOf(drafts.filter(({ id }) => added.has(id))));
  await queueDeliveries(
    db,
    drafts[0]?.chainId ?? 0,
    rows.filter(({ id }) => added.has(id)),
  );
  return added.size;
}

/**
 * One writer at a time, whatever it tells: two would give one number twice, and whoever reads behind a cursor would pass
 * over an event that has a lower `seq` and is committed later.
 */
export async function lockFeed(tx: Tx, chainId: number): Promise<void> {
  await tx
    .selectFrom("cursors")
    .select("position")
    .where("chain_id", "=", chainId)
    .where("name", "=", "indexer")
    .forUpdate()
    .execute();
}

/** Marks what a block told as no longer so, and takes it out of the sums. */
export async function revertEvents(db: Tx, chainId: number, blockHash: string): Promise<void> {
  const rows = await db
    .updateTable("events")
    .set({ reverted: true })
    .where("chain_id", "=", chainId)
    .where("block_hash", "=", blockHash)
    .where("reverted", "=", false)
    .returning(["type", "provider", "payer", "payload", "block_time"])
    .execute();
  const told = rows.map(({ block_time: blockTime, provider, payer, ...row }) => ({
    ...row,
    blockTime,
    provider: provider ?? undefined,
    payer: payer ?? undefined,
  }));
  await addSums(db, chainId, sumsOf(told, -1));
}
