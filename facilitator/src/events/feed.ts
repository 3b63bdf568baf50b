import { sql } from "kysely";
import { addSums, COUNTED, countedOf } from "../analytics/event-sums";
import { keepFailures } from "../analytics/failed-periods";
import { sumsOf } from "../analytics/rollups";
import type { Db, Tx } from "../db/open";
import type { EventRow } from "../db/tables/events";
import { restorationsOf } from "../payments/restorations";
import { queueDeliveries } from "../webhooks/outbox";
import type { EventDraft } from "./event";

/**
 * Appends events in the given order, and what they add to the sums; an id that stands already is left alone, unless it
 * was taken back with its block: then it stands again, and who was told that it does not is told so.
 * @param db a transaction: events and sums never part
 * @returns how many were new
 */
export async function appendEvents(db: Tx, all: readonly EventDraft[]): Promise<number> {
  if (all.length === 0) return 0;
  const chainId = all[0]?.chainId ?? 0;
  await lockFeed(db, chainId);
  return append(db, chainId, all);
}

/** Under the feed's lock. */
async function append(db: Tx, chainId: number, all: readonly EventDraft[]): Promise<number> {
  const seen = new Set<string>();
  const drafts = all.filter(({ id }) => !seen.has(id) && seen.add(id));
  const added = await insertNew(db, chainId, drafts);
  if (added.size === drafts.length) return added.size;
  const known = drafts.flatMap(({ id }) => (added.has(id) ? [] : [id]));
  const restorations = await restorationsOf(db, await reviveEvents(db, chainId, known));
  if (restorations.length === 0) return added.size;
  return added.size + (await insertNew(db, chainId, restorations)).size;
}

/** A number that is given out and not used would look like an event that was lost: only what is new has one. */
async function insertNew(db: Tx, chainId: number, drafts: readonly EventDraft[]): Promise<Set<string>> {
  const rows = drafts.map((draft, place) => ({
    place,
    id: draft.id,
    type: draft.type,
    object_id: draft.objectId,
    provider: draft.provider ?? null,
    payer: draft.payer ?? null,
    payload: draft.payload,
    block_number: draft.blockNumber ?? null,
    block_hash: draft.blockHash ?? null,
    log_index: draft.logIndex ?? null,
    block_time: draft.blockTime,
    transaction: draft.transaction ?? null,
  }));
  // One parameter for all: a block may tell thousands.
  const inserted = await sql<{ id: string }>`
    insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash,
      log_index, block_time, transaction)
    select id, ${chainId}::bigint, type, object_id,
      coalesce((select max(e.sequence) from events e where e.chain_id = ${chainId}::bigint and e.object_id = told.object_id), 0)
        + row_number() over (partition by object_id order by place),
      provider, payer, payload, block_number, block_hash, log_index, block_time, transaction
    from json_to_recordset(${JSON.stringify(rows)}::json) as told(place bigint, id text, type text, object_id text,
      provider text, payer text, payload jsonb, block_number bigint, block_hash text, log_index bigint,
      block_time bigint, transaction text)
    where not exists (select 1 from events e where e.chain_id = ${chainId}::bigint and e.id = told.id)
    order by place
    on conflict (chain_id, id) do nothing returning id`.execute(db);
  const added = new Set(inserted.rows.map(({ id }) => id));
  await addSums(db, chainId, sumsOf(drafts.filter(({ id }) => added.has(id))));
  const news = rows.filter(({ id }) => added.has(id)).map((row) => ({ ...row, chain_id: chainId }));
  await keepFailures(db, chainId, news);
  await queueDeliveries(db, chainId, news);
  return added;
}

/**
 * One writer at a time, whatever it tells: two would give one number twice, and whoever reads behind a cursor would pass
 * over an event that has a lower `seq` and is committed later. Whoever comes next tells first what a block has staged, so
 * that nobody can find its rows changed and its events missing who is to tell, to count or to take back anything.
 * @returns the highest block ever written; undefined before the first
 */
export async function lockFeed(tx: Tx, chainId: number): Promise<number | undefined> {
  const cursor = await tx
    .selectFrom("cursors")
    .select("position")
    .where("chain_id", "=", chainId)
    .where("name", "=", "indexer")
    .forUpdate()
    .executeTakeFirst();
  // A statement of its own: the one that waits for the lock sees what was committed before it began.
  for (const drafts of await takeStaged(tx, chainId)) await append(tx, chainId, drafts);
  return cursor?.position;
}

/** Marks what a block told as no longer so, and takes it out of the sums. Found by its height, which alone is indexed. */
export async function revertEvents(
  db: Tx,
  chainId: number,
  block: { readonly number: number; readonly hash: string },
): Promise<void> {
  const rows = await db
    .updateTable("events")
    .set({ reverted: true })
    .where("chain_id", "=", chainId)
    .where("block_number", "=", block.number)
    .where("block_hash", "=", block.hash)
    .where("reverted", "=", false)
    .returning([...COUNTED, "object_id"])
    .execute();
  await addSums(db, chainId, sumsOf(rows.map(countedOf), -1));
  await keepFailures(db, chainId, rows);
}

/** Its very block is back on the chain: what was taken back is so again, under the same id. */
async function reviveEvents(db: Tx, chainId: number, ids: readonly string[]): Promise<EventRow[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .updateTable("events")
    .set({ reverted: false })
    .where("chain_id", "=", chainId)
    .where("id", "in", [...ids])
    .where("reverted", "=", true)
    .returningAll()
    .execute();
  await addSums(db, chainId, sumsOf(rows.map(countedOf)));
  await keepFailures(db, chainId, rows);
  return rows;
}

/** Every event that a log of the chain stands behind: to be read again, or to be found wrong. */
export async function revertChainEvents(db: Tx, chainId: number): Promise<void> {
  const rows = await db
    .updateTable("events")
    .set({ reverted: true })
    .where("chain_id", "=", chainId)
    .where("log_index", "is not", null)
    .where("reverted", "=", false)
    .returning(COUNTED)
    .execute();
  await addSums(db, chainId, sumsOf(rows.map(countedOf), -1));
}

/** @param tx the transaction of the rows that they tell of, under the feed's lock */
export async function stageEvents(tx: Tx, chainId: number, drafts: readonly EventDraft[]): Promise<void> {
  await tx
    .insertInto("staged_events")
    .values({ chain_id: chainId, drafts: JSON.stringify(drafts) })
    .execute();
}

/** @returns what is to be told now, in its order, each part once: it is staged no longer */
export async function takeStaged(tx: Tx, chainId: number): Promise<readonly (readonly EventDraft[])[]> {
  const rows = await tx
    .deleteFrom("staged_events")
    .where("chain_id", "=", chainId)
    .returning(["place", "drafts"])
    .execute();
  return rows.sort((a, b) => a.place - b.place).map(({ drafts }) => JSON.parse(drafts) as EventDraft[]);
}

/** @returns of how many blocks events wait to be told */
export async function countStaged(db: Db, chainId: number): Promise<number> {
  const rows = await db.selectFrom("staged_events").select("place").where("chain_id", "=", chainId).execute();
  return rows.length;
}
