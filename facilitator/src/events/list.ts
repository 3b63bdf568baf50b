/** Lists a provider's events for GET /events: those of each chain in commit order. */
import type { EventList, FacilitatorEvent } from "turnpike/facilitator";
import { type Hex, networkOfChain, TurnpikeError } from "turnpike/protocol";
import type { Db } from "../db/open";
import type { Owner } from "../db/owner";
import { cursorOf, otherPositionsOf, positionsOf } from "./cursor";
import { wholePayload } from "./payload";

export interface EventPage {
  readonly owner: Owner;
  readonly after: string;
  readonly limit: number;
  readonly type?: string | undefined;
  readonly subject?: string | undefined;
}

/** @throws EventsDeleted when the cursor is before an event that retention has deleted: none is skipped silently */
export async function listEvents(db: Db, page: EventPage): Promise<EventList> {
  const { owner, after, limit } = page;
  const positions = positionsOf(after, owner.chainIds);
  const read = await Promise.all(
    [...positions].map(([chainId, position]) => rowsOf(db, { ...page, chainId, position })),
  );
  // After the rows were read: what is deleted later was among them.
  await requireKept(db, page, positions);
  const rows = read
    .flat()
    .sort((a, b) => a.seq - b.seq)
    .slice(0, limit);
  // Each chain's events are numbered in the order of their commits; those of two chains are not.
  for (const { chain_id: chainId, seq } of rows) positions.set(chainId, seq);
  return { events: rows.map(toWire), next: cursorOf(withOthers(page, positions)) };
}

/** The positions of a cursor that follows this page's. */
function withOthers({ after, owner }: EventPage, positions: ReadonlyMap<number, number>): ReadonlyMap<number, number> {
  return new Map([...positions, ...otherPositionsOf(after, owner.chainIds)]);
}

interface ChainPage extends EventPage {
  readonly chainId: number;
  readonly position: number;
}

function rowsOf(db: Db, { owner, chainId, position, limit, type, subject }: ChainPage) {
  let query = db
    .selectFrom("events")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("provider", "=", owner.provider)
    .where("seq", ">", position);
  if (type) query = query.where("type", "=", type);
  if (subject) query = query.where("object_id", "=", subject);
  return query.orderBy("seq").limit(limit).execute();
}

type Row = Awaited<ReturnType<typeof rowsOf>>[number];

const toWire = (row: Row): FacilitatorEvent => ({
  id: row.id,
  type: row.type,
  occurredAt: row.block_time,
  network: networkOfChain(row.chain_id).name,
  subject: row.object_id as Hex,
  sequence: row.sequence,
  ...(row.transaction && { transaction: row.transaction as Hex }),
  reverted: row.reverted,
  data: wholePayload(row),
});

async function requireKept(db: Db, page: EventPage, positions: ReadonlyMap<number, number>): Promise<void> {
  const { owner, after, type } = page;
  const kept = await Promise.all(
    [...positions].map(async ([chainId, position]): Promise<[number, number]> => {
      let query = db
        .selectFrom("pruned_feeds")
        .select(({ fn }) => fn.max("through_seq").as("through"))
        .where("chain_id", "=", chainId)
        .where("provider", "=", owner.provider);
      if (type) query = query.where("type", "=", type);
      return [chainId, Math.max(position, Number((await query.executeTakeFirst())?.through ?? 0))];
    }),
  );
  if (kept.every(([chainId, position]) => positions.get(chainId) === position)) return;
  const through = cursorOf(withOthers(page, new Map(kept)));
  throw new TurnpikeError(
    "EventsDeleted",
    `events after cursor ${after} were deleted because of their age; the first event that is kept has a number above ${through}: continue with cursor=${through}`,
    { details: { cursor: through } },
  );
}

/** Returns the cursor of the newest event of each chain; later events are new. */
export async function newestEvents(db: Db, chainIds: readonly number[]): Promise<string> {
  const newest = await Promise.all(
    chainIds.map(async (chainId): Promise<[number, number]> => {
      const row = await db
        .selectFrom("events")
        .select("seq")
        .where("chain_id", "=", chainId)
        .orderBy("seq", "desc")
        .limit(1)
        .executeTakeFirst();
      return [chainId, row?.seq ?? 0];
    }),
  );
  return cursorOf(new Map(newest));
}
