/**
 * Deletes old events whose objects can get no further event. What they say is in the rows of their objects. Their ids
 * are not published again: `reindex --wipe` leaves those objects as they are.
 */
import { type RawBuilder, sql } from "kysely";
import type { Archive } from "../db/archive";
import { lockCursor, moveCursor } from "../db/cursors";
import type { Db, Store, Tx } from "../db/open";
import { intList } from "../db/sql";
import type { EventRow } from "../db/tables/events";
import { wholePayload } from "./payload";

/** An event that nothing will change any more. */
export type OldEvent = EventRow & { readonly provider: string };

export interface EventRetention {
  readonly store: Store;
  readonly chainId: number;
  /** types of events that are the last of their object once they are final */
  readonly types: readonly string[];
  /** Returns the ids of those that something else still reads. */
  awaited(tx: Tx, events: readonly OldEvent[]): Promise<ReadonlySet<string>>;
  /** Called in the same database transaction, before the rows are deleted. */
  onDelete(tx: Tx, events: readonly OldEvent[]): Promise<void>;
  /** absent: nothing is archived */
  readonly archive?: Archive | undefined;
}

/** Events before these limits are deleted. */
export interface OldEvents {
  /** chain time, unix seconds */
  readonly beforeSec: number;
  /** highest block that cannot be reverted */
  readonly finalBlock: number;
}

const AT_ONCE = 500;

/** Events in one file of the archive: about 1 MB. Fewer when the oldest has waited for a day. */
const IN_A_FILE = 10_000;

const FILE_WAITS_SEC = 86_400;

const KIND = "events";

/** Name of the cursor: the `seq` up to which events were looked at. */
const LOOKED_AT = "pruned events";

/** Name of the cursor: the highest block of a deleted event. */
const BLOCK = "pruned events' block";

/**
 * Deletes a batch of old events, oldest first; those in the archive alone when there is one.
 * @returns the number of events looked at; 0 when none is left
 */
export async function deleteOldEvents(retention: EventRetention, old: OldEvents): Promise<number> {
  const { archive } = retention;
  if (!archive) return deleteBatch(retention, old, Number.MAX_SAFE_INTEGER);
  const looked = await deleteBatch(retention, old, await archive.through(KIND));
  if (looked > 0) return looked;
  await archiveNext(retention, archive, old);
  return deleteBatch(retention, old, await archive.through(KIND));
}

function deleteBatch(retention: EventRetention, old: OldEvents, throughSeq: number): Promise<number> {
  const { store, chainId } = retention;
  return store.transaction(async (tx) => {
    const after = (await lockCursor(tx, { chainId, name: LOOKED_AT })) ?? 0;
    // Locked: an event that is about to be sent again is awaited, and one that is about to be deleted is not found.
    const rows = await oldest(tx, retention, { after, throughSeq, limit: AT_ONCE, lock: sql`for update` });
    const { looked, ended } = await over(tx, retention, old, rows);
    const last = looked.at(-1);
    if (!last) return 0;
    if (ended.length > 0) await deleteEvents(tx, retention, ended);
    await moveCursor(tx, { chainId, name: LOOKED_AT }, last.seq);
    return looked.length;
  });
}

async function archiveNext(retention: EventRetention, archive: Archive, old: OldEvents): Promise<void> {
  const [first, ...rest] = await nextToArchive(retention, await archive.through(KIND), old);
  if (first) await archive.write(KIND, [archivedRow(first), ...rest.map(archivedRow)]);
}

/** @returns empty as long as they do not fill a file and the oldest has not waited long enough */
function nextToArchive(retention: EventRetention, archived: number, old: OldEvents): Promise<readonly OldEvent[]> {
  const { store, chainId } = retention;
  return store.transaction(async (tx) => {
    const after = (await lockCursor(tx, { chainId, name: LOOKED_AT })) ?? 0;
    // Those of the newest file are deleted first.
    if (after < archived) return [];
    const rows = await oldest(tx, retention, { after, throughSeq: Number.MAX_SAFE_INTEGER, limit: IN_A_FILE });
    const { looked, ended } = await over(tx, retention, old, rows);
    const last = looked.at(-1);
    const [first] = ended;
    if (!last) return [];
    if (!first) await moveCursor(tx, { chainId, name: LOOKED_AT }, last.seq);
    const isDue = first && (looked.length === IN_A_FILE || first.block_time < old.beforeSec - FILE_WAITS_SEC);
    return isDue ? ended : [];
  });
}

interface Reading {
  readonly after: number;
  readonly throughSeq: number;
  readonly limit: number;
  readonly lock?: RawBuilder<unknown>;
}

/** Returns the oldest events. Never the newest of all: its number is where new readers begin. */
async function oldest(db: Db, { chainId }: EventRetention, reading: Reading): Promise<readonly EventRow[]> {
  const { after, throughSeq, limit, lock = sql`` } = reading;
  const { rows } =
    await sql<EventRow>`select * from events where chain_id = ${chainId}::bigint and seq > ${after}::bigint
      and seq <= ${throughSeq}::bigint and seq < (select seq from events where chain_id = ${chainId}::bigint
        order by seq desc limit 1)
    order by seq limit ${limit}::int ${lock}`.execute(db);
  return rows;
}

/** Returns the first of the rows up to one that is not old or still awaited, and of these the ones that can be deleted. */
async function over(
  tx: Tx,
  { types, awaited }: EventRetention,
  { beforeSec, finalBlock }: OldEvents,
  rows: readonly EventRow[],
): Promise<{ readonly looked: readonly EventRow[]; readonly ended: readonly OldEvent[] }> {
  const young = rows.findIndex((row) => row.block_time >= beforeSec || (row.block_number ?? 0) > finalBlock);
  const past = young === -1 ? rows : rows.slice(0, young);
  const isEnded = (row: EventRow): row is OldEvent =>
    types.includes(row.type) && !row.reverted && row.provider !== null;
  const waitedFor = await awaited(tx, past.filter(isEnded));
  const kept = past.findIndex((row) => isEnded(row) && waitedFor.has(row.id));
  const looked = kept === -1 ? past : past.slice(0, kept);
  return { looked, ended: looked.filter(isEnded) };
}

/** The event as it was published, with its number. */
function archivedRow(row: OldEvent) {
  const { payload: _, ...columns } = row;
  return { ...columns, payload: wholePayload(row) };
}

async function deleteEvents(tx: Tx, { chainId, onDelete }: EventRetention, events: readonly OldEvent[]): Promise<void> {
  await onDelete(tx, events);
  const seqs = events.map(({ seq }) => seq);
  await sql`insert into pruned_feeds as f (chain_id, provider, type, through_seq)
    select chain_id, provider, type, max(seq) from events where seq = any(${intList(seqs)}) group by 1, 2, 3
    on conflict (chain_id, provider, type) do update set through_seq = greatest(f.through_seq, excluded.through_seq)`.execute(
    tx,
  );
  await sql`delete from events where seq = any(${intList(seqs)})`.execute(tx);
  const block = Math.max(await prunedBlock(tx, chainId), ...events.map((event) => event.block_number ?? 0));
  await moveCursor(tx, { chainId, name: BLOCK }, block);
}

/** Returns the highest block of a deleted event; -1 when none was deleted. */
export async function prunedBlock(db: Db, chainId: number): Promise<number> {
  const row = await db
    .selectFrom("cursors")
    .select("position")
    .where("chain_id", "=", chainId)
    .where("name", "=", BLOCK)
    .executeTakeFirst();
  return row?.position ?? -1;
}
