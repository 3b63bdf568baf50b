/** Lists a provider's events for GET /events, in commit order. */
import type { EventList, FacilitatorEvent } from "turnpike/facilitator";
import { type Address, type Hex, TurnpikeError } from "turnpike/protocol";
import type { Db } from "../db/open";
import { wholePayload } from "./payload";

export interface EventPage {
  /** provider whose plan or payee the events concern */
  readonly provider: Address;
  /** cursor of the last event seen */
  readonly after: number;
  readonly limit: number;
  readonly type?: string | undefined;
  readonly subject?: string | undefined;
}

/** @throws EventsDeleted when the cursor is before an event that retention has deleted: none is skipped silently */
export async function listEvents(db: Db, chainId: number, page: EventPage): Promise<EventList> {
  const { provider, after, limit, type, subject } = page;
  let query = db
    .selectFrom("events")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("provider", "=", provider)
    .where("seq", ">", after);
  if (type) query = query.where("type", "=", type);
  if (subject) query = query.where("object_id", "=", subject);
  const rows = await query.orderBy("seq").limit(limit).execute();
  // After the rows were read: what is deleted later was among them.
  await requireKept(db, chainId, page);
  const events = rows.map(
    (row): FacilitatorEvent => ({
      id: row.id,
      type: row.type,
      occurredAt: row.block_time,
      subject: row.object_id as Hex,
      sequence: row.sequence,
      ...(row.transaction && { transaction: row.transaction as Hex }),
      reverted: row.reverted,
      data: wholePayload(row),
    }),
  );
  return { events, next: String(rows.at(-1)?.seq ?? after) };
}

async function requireKept(db: Db, chainId: number, { provider, after, type }: EventPage): Promise<void> {
  let query = db
    .selectFrom("pruned_feeds")
    .select(({ fn }) => fn.max("through_seq").as("through"))
    .where("chain_id", "=", chainId)
    .where("provider", "=", provider);
  if (type) query = query.where("type", "=", type);
  const through = Number((await query.executeTakeFirst())?.through ?? 0);
  if (after >= through) return;
  throw new TurnpikeError(
    "EventsDeleted",
    `events after cursor ${after} were deleted because of their age; the first event that is kept has a number above ${through}: continue with cursor=${through}`,
    { details: { cursor: String(through) } },
  );
}

/** Returns the cursor of the newest event; later events are new. */
export async function newestEvent(db: Db, chainId: number): Promise<number> {
  const row = await db
    .selectFrom("events")
    .select("seq")
    .where("chain_id", "=", chainId)
    .orderBy("seq", "desc")
    .limit(1)
    .executeTakeFirst();
  return row?.seq ?? 0;
}
