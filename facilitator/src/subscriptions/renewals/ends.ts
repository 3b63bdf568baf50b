/**
 * Reports the end that a subscriber set, once it is reached: also of a record that is paused or has expired, which no
 * renewal looks at. Judged by the newest applied block: a later act of the subscriber cannot move it any more.
 */
import { sql } from "kysely";
import type { Store } from "../../db/open";
import type { EventFeed } from "../../events/feed";
import { newestBlock } from "../../indexer/applied-blocks";
import { emitTimeEvents, type TimeEvent } from "./time-events";

export interface EndWatch {
  /** Emits one event for each end up to the newest applied block. Several processes may run it. */
  check(): Promise<void>;
}

export interface EndWatchOptions {
  readonly store: Store;
  readonly feed: EventFeed;
  readonly chainId: number;
}

const PAGE = 500;

interface Ended {
  readonly id_hash: string;
  readonly paid_through: number;
  readonly ends_at: number;
}

export function createEndWatch({ store, feed, chainId }: EndWatchOptions): EndWatch {
  async function reportPage(nowSec: number): Promise<number> {
    return store.transaction(async (tx) => {
      await feed.lock(tx);
      const { rows } = await sql<Ended>`
        delete from subscription_ends e using subscriptions s
        where e.chain_id = ${chainId}::bigint and s.chain_id = e.chain_id and s.id_hash = e.id_hash and e.id_hash in (
          select id_hash from subscription_ends where chain_id = ${chainId}::bigint and ends_at <= ${nowSec}::bigint
          order by ends_at, id_hash limit ${PAGE}::int)
        returning e.id_hash, e.ends_at, s.paid_through`.execute(tx);
      const events = rows.map(
        (row): TimeEvent => ({
          idHash: row.id_hash,
          paidThroughSec: row.paid_through,
          type: "subscription.cancelled",
          atSec: row.ends_at,
          more: { atPeriodEnd: true },
        }),
      );
      await emitTimeEvents(tx, { chainId, feed }, events, nowSec);
      return rows.length;
    });
  }

  return {
    async check() {
      const newest = await newestBlock(store.db, chainId);
      if (!newest) return;
      const first = await store.db
        .selectFrom("subscription_ends")
        .select("id_hash")
        .where("chain_id", "=", chainId)
        .where("ends_at", "<=", newest.timestamp)
        .limit(1)
        .executeTakeFirst();
      if (!first) return;
      while ((await reportPage(newest.timestamp)) === PAGE);
      store.notifier.notify("events");
    },
  };
}
