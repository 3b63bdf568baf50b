/** Events in commit order: the feed of GET /events, and the source of the webhooks' outbox. */
import type { ColumnType, Generated, Selectable } from "kysely";

export interface EventsTable {
  /** cursor of GET /events */
  seq: Generated<number>;
  id: string;
  chain_id: number;
  type: string;
  /** paymentId, planId or idHash */
  object_id: string;
  /** number of the event among those of its object, from 1 */
  sequence: number;
  provider: string | null;
  payer: string | null;
  /** as published, without what the columns repeat: see `wholePayload` */
  payload: ColumnType<Record<string, unknown>, string, string>;
  block_number: number | null;
  block_hash: string | null;
  log_index: number | null;
  /** chain time, unix seconds */
  block_time: number;
  transaction: string | null;
  reverted: Generated<boolean>;
}

export type EventRow = Selectable<EventsTable>;

/**
 * Events of a block, stored with its rows and not published yet. Publishing a thousand events with their rollups takes
 * as long as the rest of the block; callers that wait for payments must not wait for it. No later event is published
 * before them: see `EventFeed.lock`.
 */
export interface StagedEventsTable {
  chain_id: number;
  place: Generated<number>;
  /** `EventDraft[]` as JSON */
  drafts: string;
}

/** How far retention has deleted the events of a provider and type: a cursor before it is refused. */
export interface PrunedFeedsTable {
  chain_id: number;
  provider: string;
  type: string;
  /** highest `seq` that was deleted */
  through_seq: number;
}
