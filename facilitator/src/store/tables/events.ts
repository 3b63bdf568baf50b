/** What happened, in the order of commit: the feed behind GET /events and the webhooks' outbox. */
import { type ColumnType, type Generated, type Selectable, sql } from "kysely";
import type { Tx } from "../open";
import { type CountedEvent, sumsOf } from "../rollups";
import { keepFailures } from "./failed-periods";
import { restorationsOf } from "./restored";
import { addSums, EVENT_SUMS } from "./rollups";
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

export type EventRow = Selectable<EventsTable>;

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
 * Appends events in the given order, and what they add to the sums; an id that stands already is left alone, unless it
 * was taken back with its block: then it stands again, and who was told that it does not is told so.
 * @param db a transaction: events and sums never part
 * @returns how many were new
 */
export async function appendEvents(db: Tx, all: readonly EventDraft[]): Promise<number> {
  if (all.length === 0) return 0;
  const chainId = all[0]?.chainId ?? 0;
  await lockFeed(db, chainId);
  const { standing: known, last } = await whatStands(db, chainId, all);
  const revived = await reviveEvents(db, chainId, known);
  // A number that is given out and not used would look like an event that was lost.
  const drafts = all.filter((draft) => !known.has(draft.id) && known.add(draft.id));
  drafts.push(...(await restorationsOf(db, revived)));
  if (drafts.length === 0) return 0;
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
      payload: draft.payload,
      block_number: draft.blockNumber ?? null,
      block_hash: draft.blockHash ?? null,
      log_index: draft.logIndex ?? null,
      block_time: draft.blockTime,
      transaction: draft.transaction ?? null,
    };
  });
  // One parameter for all: a block may tell thousands.
  const inserted = await sql<{ id: string }>`
    insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash,
      log_index, block_time, transaction)
    select id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash, log_index,
      block_time, transaction
    from json_to_recordset(${JSON.stringify(rows)}::json) as told(id text, chain_id bigint, type text, object_id text,
      sequence bigint, provider text, payer text, payload jsonb, block_number bigint, block_hash text, log_index bigint,
      block_time bigint, transaction text)
    on conflict (chain_id, id) do nothing returning id`.execute(db);
  const added = new Set(inserted.rows.map(({ id }) => id));
  await addSums(db, chainId, sumsOf(drafts.filter(({ id }) => added.has(id))));
  const news = rows.filter(({ id }) => added.has(id));
  await keepFailures(db, chainId, news);
  await queueDeliveries(db, chainId, news);
  return added.size;
}

interface Standing {
  /** ids of those that were told before */
  readonly standing: Set<string>;
  /** the number of the newest event of each object */
  readonly last: Map<string, number>;
}

async function whatStands(db: Tx, chainId: number, drafts: readonly EventDraft[]): Promise<Standing> {
  const { rows } = await sql<{ id: string; last: number | null }>`
    select id, null::bigint as last from events
      where chain_id = ${chainId}::bigint and id = any(${textArray(drafts.map(({ id }) => id))}::text[])
    union all
    select object_id, max(sequence) from events
      where chain_id = ${chainId}::bigint and object_id = any(${textArray(drafts.map(({ objectId }) => objectId))}::text[])
      group by object_id`.execute(db);
  const standing = rows.flatMap(({ id, last }) => (last === null ? [id] : []));
  const last = rows.flatMap(({ id, last }) => (last === null ? [] : [[id, Number(last)] as const]));
  return { standing: new Set(standing), last: new Map(last) };
}

/** Hashes only: nothing that would need escaping. */
const textArray = (values: Iterable<string>): string => `{${[...new Set(values)].join(",")}}`;

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
    .returning([...COUNTED, "object_id"])
    .execute();
  await addSums(db, chainId, sumsOf(rows.map(countedOf), -1));
  await keepFailures(db, chainId, rows);
}

/** Its very block is back on the chain: what was taken back is so again, under the same id. */
async function reviveEvents(db: Tx, chainId: number, ids: ReadonlySet<string>): Promise<EventRow[]> {
  if (ids.size === 0) return [];
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

const RECOUNT_PAGE = 5_000;

/** The sums of the events that stand, counted anew: whatever made them wrong. */
export async function recountSums(db: Tx, chainId: number): Promise<void> {
  for (const table of EVENT_SUMS) await db.deleteFrom(table).where("chain_id", "=", chainId).execute();
  for (let after = 0; ; ) {
    const rows = await db
      .selectFrom("events")
      .select([...COUNTED, "seq"])
      .where("chain_id", "=", chainId)
      .where("reverted", "=", false)
      .where("seq", ">", after)
      .orderBy("seq")
      .limit(RECOUNT_PAGE)
      .execute();
    await addSums(db, chainId, sumsOf(rows.map(countedOf)));
    const last = rows.at(-1);
    if (!last) return;
    after = last.seq;
  }
}

const COUNTED = ["type", "provider", "payer", "payload", "block_time"] as const;

function countedOf({
  block_time: blockTime,
  provider,
  payer,
  ...row
}: Pick<EventRow, (typeof COUNTED)[number]>): CountedEvent {
  return { ...row, blockTime, provider: provider ?? undefined, payer: payer ?? undefined };
}
