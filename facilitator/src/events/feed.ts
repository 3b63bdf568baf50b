import { sql } from "kysely";
import { lockCursor } from "../db/cursors";
import type { Db, Tx } from "../db/open";
import type { EventDraft } from "./event";
import { compactPayload, wholePayload } from "./payload";
import type { EventProjection } from "./projection";

/** Publishes and reverts events, and updates the projections in the same transaction. One writer at a time. */
export class EventFeed {
  readonly #chainId: number;
  readonly #projections: readonly EventProjection[];

  /** @param projections called in this order */
  constructor(chainId: number, projections: readonly EventProjection[]) {
    this.#chainId = chainId;
    this.#projections = projections;
  }

  /**
   * Publishes events in the given order. Skips an id that is already published, unless it was reverted with its block:
   * then the event is valid again.
   * @returns how many were new
   */
  async append(tx: Tx, drafts: readonly EventDraft[]): Promise<number> {
    if (drafts.length === 0) return 0;
    await this.lock(tx);
    return this.#append(tx, drafts);
  }

  /**
   * Locks the feed until the end of the transaction. Two writers could assign one number twice, or commit an event with
   * a lower `seq` after a reader's cursor has passed it. Publishes staged events first, so that no writer finds a
   * block's rows without its events.
   * @returns the highest block ever written; undefined before the first
   */
  async lock(tx: Tx): Promise<number | undefined> {
    const chainId = this.#chainId;
    const position = await lockCursor(tx, { chainId, name: "indexer" });
    // Runs as its own statement: the statement that waits for the lock sees only what was committed before it began.
    for (const drafts of await takeStaged(tx, chainId)) await this.#append(tx, drafts);
    return position;
  }

  /**
   * Stores events for the next writer that locks the feed to publish.
   * @param tx transaction of their rows, under the lock
   */
  async stage(tx: Tx, drafts: readonly EventDraft[]): Promise<void> {
    await tx
      .insertInto("staged_events")
      .values({ chain_id: this.#chainId, drafts: JSON.stringify(drafts) })
      .execute();
  }

  /** Reverts the events of a block. Finds them by its height, which alone is indexed. */
  async revertBlock(tx: Tx, block: { readonly number: number; readonly hash: string }): Promise<void> {
    const rows = await tx
      .updateTable("events")
      .set({ reverted: true })
      .where("chain_id", "=", this.#chainId)
      .where("block_number", "=", block.number)
      .where("block_hash", "=", block.hash)
      .where("reverted", "=", false)
      .returning(["type", "object_id", "provider", "payer", "payload", "block_number", "block_time", "transaction"])
      .execute();
    if (rows.length === 0) return;
    const events = rows.map((row) => ({ ...row, payload: wholePayload(row) }));
    for (const projection of this.#projections) await projection.reverted?.(tx, this.#chainId, events);
  }

  /** Reverts every event of a log, before the chain is indexed again. The caller rebuilds the projections' rows. */
  async revertLogs(tx: Tx): Promise<void> {
    await tx
      .updateTable("events")
      .set({ reverted: true })
      .where("chain_id", "=", this.#chainId)
      .where("log_index", "is not", null)
      .where("reverted", "=", false)
      .execute();
  }

  /** Publishes under the lock. */
  async #append(tx: Tx, all: readonly EventDraft[]): Promise<number> {
    const seen = new Set<string>();
    const drafts = all.filter(({ id }) => !seen.has(id) && seen.add(id));
    const added = await this.#insertNew(tx, drafts);
    if (added.size === drafts.length) return added.size;
    const known = drafts.flatMap(({ id }) => (added.has(id) ? [] : [id]));
    const more = await this.#revive(tx, known);
    if (more.length === 0) return added.size;
    return added.size + (await this.#insertNew(tx, more)).size;
  }

  /** Inserts only new events, because a number that is assigned and not used would look like a lost event. */
  async #insertNew(tx: Tx, drafts: readonly EventDraft[]): Promise<Set<string>> {
    const chainId = this.#chainId;
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
    const stored = rows.map((row) => ({ ...row, payload: compactPayload(row) }));
    // One parameter for all rows: a block may have thousands.
    const inserted = await sql<{ id: string }>`
    insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash,
      log_index, block_time, transaction)
    select id, ${chainId}::bigint, type, object_id,
      coalesce((select max(e.sequence) from events e where e.chain_id = ${chainId}::bigint and e.object_id = draft.object_id), 0)
        + row_number() over (partition by object_id order by place),
      provider, payer, payload, block_number, block_hash, log_index, block_time, transaction
    from json_to_recordset(${JSON.stringify(stored)}::json) as draft(place bigint, id text, type text, object_id text,
      provider text, payer text, payload jsonb, block_number bigint, block_hash text, log_index bigint,
      block_time bigint, transaction text)
    where not exists (select 1 from events e where e.chain_id = ${chainId}::bigint and e.id = draft.id)
    order by place
    on conflict (chain_id, id) do nothing returning id`.execute(tx);
    const added = new Set(inserted.rows.map(({ id }) => id));
    const published = rows.filter(({ id }) => added.has(id));
    if (published.length === 0) return added;
    for (const projection of this.#projections) await projection.appended?.(tx, chainId, published);
    return added;
  }

  /** Makes reverted events of these ids valid again, under the same ids. @returns events to publish as a result */
  async #revive(tx: Tx, ids: readonly string[]): Promise<readonly EventDraft[]> {
    if (ids.length === 0) return [];
    const rows = await tx
      .updateTable("events")
      .set({ reverted: false })
      .where("chain_id", "=", this.#chainId)
      .where("id", "in", [...ids])
      .where("reverted", "=", true)
      .returningAll()
      .execute();
    if (rows.length === 0) return [];
    const events = rows.map((row) => ({ ...row, payload: wholePayload(row) }));
    const more: EventDraft[] = [];
    for (const projection of this.#projections) {
      more.push(...((await projection.revived?.(tx, this.#chainId, events)) ?? []));
    }
    return more;
  }
}

/** Removes and returns the staged events, in order, by block. */
async function takeStaged(tx: Tx, chainId: number): Promise<readonly (readonly EventDraft[])[]> {
  const rows = await tx
    .deleteFrom("staged_events")
    .where("chain_id", "=", chainId)
    .returning(["place", "drafts"])
    .execute();
  return rows.sort((a, b) => a.place - b.place).map(({ drafts }) => JSON.parse(drafts) as EventDraft[]);
}

export async function countStaged(db: Db, chainId: number): Promise<number> {
  const rows = await db.selectFrom("staged_events").select("place").where("chain_id", "=", chainId).execute();
  return rows.length;
}
