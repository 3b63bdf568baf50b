/**
 * What a block tells, stored with its rows and not told yet: a thousand events and their sums take as long as all else of
 * a block, and nobody who waits for a payment waits for them. See `lockFeed`: nothing is told before them.
 */
import type { Generated } from "kysely";
import type { Db, Tx } from "../open";
import type { EventDraft } from "./events";

export interface StagedEventsTable {
  chain_id: number;
  /** the order in which they are told */
  place: Generated<number>;
  /** `EventDraft[]` as JSON */
  drafts: string;
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
