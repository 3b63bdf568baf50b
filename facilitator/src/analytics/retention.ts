/**
 * Once a day of the chain: forgets the hours that are kept no longer, and which reports were counted, and puts the sums of
 * what is over together. Days stay for ever.
 */
import type { Logger } from "pino";
import type { Clock } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Db, Store } from "../db/open";
import type { EventFeed } from "../events/feed";
import { DAY_SEC, HOUR_SEC } from "../lib/durations";
import type { Worker } from "../lib/loop";
import { gatherSums } from "./compact-rollups";
import { hoursKeptSince } from "./ranges";
import { bucketOf } from "./rollups";

export interface RetentionContext {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  /** chain time */
  readonly clock: Clock;
  readonly log: Logger;
}

/** Reports are taken for a day; one that is sent again after this is too old to be taken. */
const REPORTS_KEPT_SEC = 3 * DAY_SEC;

const LOOK_EVERY_MS = 60_000;

/** @returns how many rows are gone */
export async function forgetOld(db: Db, chainId: number, nowSec: number): Promise<number> {
  let gone = 0;
  // Releases before this one kept hours of the other two as well.
  for (const [table, sinceSec] of [
    ["rollup_volume", hoursKeptSince(nowSec)],
    ["rollup_events", nowSec],
    ["rollup_funnel", nowSec],
  ] as const) {
    const { numDeletedRows } = await db
      .deleteFrom(table)
      .where("chain_id", "=", chainId)
      .where("grain", "=", HOUR_SEC)
      .where("bucket", "<", sinceSec)
      .executeTakeFirst();
    gone += Number(numDeletedRows);
  }
  const { numDeletedRows } = await db
    .deleteFrom("gate_reports")
    .where("chain_id", "=", chainId)
    .where("accepted_at", "<", nowSec - REPORTS_KEPT_SEC)
    .executeTakeFirst();
  return gone + Number(numDeletedRows);
}

/** Several processes may do it at once: what is gone is gone. */
export function startTidying({ store, feed, config, clock, log }: RetentionContext): Worker {
  let doneOn: number | undefined;
  let running: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(look);
  }, LOOK_EVERY_MS);
  timer.unref();
  running = look();

  async function look(): Promise<void> {
    try {
      const nowSec = clock.nowSec();
      const today = bucketOf(nowSec, DAY_SEC);
      if (doneOn === today) return;
      const gone = await forgetOld(store.db, config.chainId, nowSec);
      const moved = await gatherSums({ store, feed, chainId: config.chainId }, nowSec);
      doneOn = today;
      if (moved > 0) log.info({ moved }, "sums of days that are over are put together");
      if (gone > 0) log.info({ gone }, "old hours of the figures are forgotten");
    } catch (error) {
      // Nothing waits for it: it is tried again.
      log.warn({ error }, "old figures could not be forgotten");
    }
  }

  return {
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}
