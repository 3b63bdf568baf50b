/** Forgets the hours that are kept no longer, and which reports were counted: once a day of the chain. Days stay for ever. */
import type { RoleContext, Worker } from "../roles";
import type { Db } from "../store/open";
import { bucketOf, DAY_SEC, HOUR_SEC } from "../store/rollups";
import { hoursKeptSince } from "./ranges";

const HOURLY = ["rollup_volume", "rollup_events", "rollup_funnel"] as const;
/** Reports are taken for a day; one that is sent again after this is too old to be taken. */
const REPORTS_KEPT_SEC = 3 * DAY_SEC;
const LOOK_EVERY_MS = 60_000;

/** @returns how many rows are gone */
export async function forgetOld(db: Db, chainId: number, nowSec: number): Promise<number> {
  let gone = 0;
  for (const table of HOURLY) {
    const { numDeletedRows } = await db
      .deleteFrom(table)
      .where("chain_id", "=", chainId)
      .where("grain", "=", HOUR_SEC)
      .where("bucket", "<", hoursKeptSince(nowSec))
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
export function startTidying({ store, config, clock, log }: RoleContext): Worker {
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
      doneOn = today;
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
