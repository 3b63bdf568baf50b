/** Reads the lanes from the database, for a process without keys, or whose keys another process has. */
import type { Address } from "turnpike/protocol";
import type { Store } from "../db/open";
import { databaseNowMs } from "../db/sql";
import { type LaneHealth, REPORT_EVERY_MS } from "./lane-state";

export interface LaneWatch {
  /** addresses of lanes that are leased, or were last; a retired key keeps its row and sends nothing */
  addresses(): readonly Address[];
  health(): readonly LaneHealth[];
  refresh(): Promise<void>;
}

/** When a leased lane has not reported for this long, its rounds do not complete. */
const REPORT_SILENT_MS = 30_000;

/** A few reports, one of which may be late. */
const REPORT_FRESH_MS = 3 * REPORT_EVERY_MS;

const NO_PROCESS = "no process holds this lane";

/**
 * Returns the health of a lane of this process: as the process that has the lease reports it, where that is another
 * one. A lane that nobody has is about to be acquired here.
 */
export function withReport(own: LaneHealth, reported: readonly LaneHealth[]): LaneHealth {
  if (own.status !== "standby") return own;
  return reported.find(({ key, reason }) => key === own.key && reason !== NO_PROCESS) ?? own;
}

export function watchLanes(store: Store, chainId: number): LaneWatch {
  let lanes: LaneHealth[] = [];
  let leased: Address[] = [];
  return {
    addresses: () => leased,
    health: () => lanes,
    async refresh() {
      const rows = await store.db
        .selectFrom("lanes as l")
        .leftJoin("lane_reports as r", (join) =>
          join.onRef("r.chain_id", "=", "l.chain_id").onRef("r.key", "=", "l.key"),
        )
        .select(["l.key", "l.status", "l.reason", "l.lease_until_ms", databaseNowMs.as("now")])
        .select(["r.at_ms", "r.balance_wei", "r.is_balance_low", "r.obstacle"])
        .select(["r.in_flight", "r.queued", "r.oldest_pending_sec"])
        .where("l.chain_id", "=", chainId)
        .orderBy("l.key")
        .execute();
      const leasedNow = rows.filter((row) => row.lease_until_ms > row.now).map((row) => row.key as Address);
      // Nobody has the lease while the lane's process is replaced.
      if (leasedNow.length > 0) leased = leasedNow;
      lanes = rows.map((row): LaneHealth => {
        const silentMs = row.at_ms === null ? 0 : Math.max(0, row.now - row.at_ms);
        // Its process waits for nodes, or another one is about to acquire the lane. Payments queue meanwhile.
        const hasJustReported = row.at_ms !== null && silentMs <= REPORT_FRESH_MS;
        const isUsable = row.status === "running" && (row.lease_until_ms > row.now || hasJustReported);
        // A process of the previous release leases the lane and does not report.
        const obstacle =
          silentMs > REPORT_SILENT_MS
            ? `its process has not reported for ${Math.round(silentMs / 1_000)} s`
            : (row.obstacle ?? undefined);
        const reason = isUsable ? obstacle : row.status === "stopped" ? (row.reason ?? undefined) : NO_PROCESS;
        return {
          key: row.key as Address,
          status: isUsable ? "standby" : "stopped",
          ...(reason !== undefined && { reason }),
          ...(row.balance_wei !== null && { balanceWei: BigInt(row.balance_wei) }),
          isBalanceLow: row.is_balance_low ?? false,
          isStuck: isUsable && obstacle !== undefined,
          inFlight: row.in_flight ?? 0,
          queued: row.queued ?? 0,
          oldestPendingSec: row.oldest_pending_sec ?? 0,
        };
      });
    },
  };
}
