/**
 * Deletes hourly rollups and report ids that are too old, and compacts the rollups of finished days. Runs once a day of
 * the chain. Daily rollups are kept for ever.
 */
import type { Logger } from "pino";
import type { Clock } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Db, Store } from "../db/open";
import type { EventFeed } from "../events/feed";
import { DAY_SEC, HOUR_SEC } from "../lib/durations";
import type { Worker } from "../lib/loop";
import { compactRollups } from "./compact-rollups";
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

/** Reports are accepted for a day. A report sent again after this is too old to be accepted. */
const REPORTS_KEPT_SEC = 3 * DAY_SEC;

const LOOK_EVERY_MS = 60_000;

/** Deletes hourly rollups and report ids past their retention. @returns the number of rows deleted */
export async function deleteOld(db: Db, chainId: number, nowSec: number): Promise<number> {
  let gone = 0;
  // Earlier releases kept hours of the last one as well: none is needed.
  for (const [table, sinceSec] of [
    ["rollup_totals", hoursKeptSince(nowSec)],
    ["pruned_totals", hoursKeptSince(nowSec)],
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

/** Several processes may run it at once. */
export function startRetention({ store, feed, config, clock, log }: RetentionContext): Worker {
  let doneOn: number | undefined;
  let running: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(runOnceADay);
  }, LOOK_EVERY_MS);
  timer.unref();
  running = runOnceADay();

  async function runOnceADay(): Promise<void> {
    try {
      const nowSec = clock.nowSec();
      const today = bucketOf(nowSec, DAY_SEC);
      if (doneOn === today) return;
      const gone = await deleteOld(store.db, config.chainId, nowSec);
      const moved = await compactRollups({ store, feed, chainId: config.chainId }, nowSec);
      doneOn = today;
      if (moved > 0) log.info({ moved }, "compacted the rollups of finished days");
      if (gone > 0) log.info({ gone }, "deleted old hourly rollups");
    } catch (error) {
      // Nothing waits for it; the timer retries.
      log.warn({ error }, "old rollups could not be deleted or compacted; trying again in a minute");
    }
  }

  return {
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}
