/** What the process that holds a lane reports of it, for the processes that hold no key. */
import { databaseNowMs } from "../database-clock";
import type { Db } from "../open";

export interface LaneReportsTable {
  chain_id: number;
  key: string;
  /** unix milliseconds by the database's clock */
  at_ms: number;
  /** native coin; null before it was read */
  balance_wei: string | null;
  is_balance_low: boolean;
  /** why nothing is sent or mined; null while nothing is in the way */
  obstacle: string | null;
  in_flight: number;
  queued: number;
  oldest_pending_sec: number;
}

export async function storeLaneReport(db: Db, report: Omit<LaneReportsTable, "at_ms">): Promise<void> {
  const { chain_id, key, ...facts } = report;
  await db
    .insertInto("lane_reports")
    .values({ chain_id, key, ...facts, at_ms: databaseNowMs })
    .onConflict((conflict) => conflict.columns(["chain_id", "key"]).doUpdateSet({ ...facts, at_ms: databaseNowMs }))
    .execute();
}
