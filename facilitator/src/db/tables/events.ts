/** What happened, in the order of commit: the feed behind GET /events and the webhooks' outbox. */
import type { ColumnType, Generated, Selectable } from "kysely";

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

/**
 * What a block tells, stored with its rows and not told yet: a thousand events and their sums take as long as all else of
 * a block, and nobody who waits for a payment waits for them. See `EventFeed.lock`: nothing is published before them.
 */
export interface StagedEventsTable {
  chain_id: number;
  /** the order in which they are told */
  place: Generated<number>;
  /** `EventDraft[]` as JSON */
  drafts: string;
}
