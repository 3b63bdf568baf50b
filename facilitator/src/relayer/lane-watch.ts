/** The lanes as the database tells them, for a process that holds no key: other processes send. */
import type { Address } from "turnpike/protocol";
import { databaseNowMs } from "../store/database-clock";
import type { Store } from "../store/open";
import type { LaneHealth } from "./lane";

export interface LaneWatch {
  addresses(): readonly Address[];
  health(): readonly LaneHealth[];
  look(): Promise<void>;
}

export function watchLanes(store: Store, chainId: number): LaneWatch {
  let lanes: LaneHealth[] = [];
  return {
    addresses: () => lanes.map((lane) => lane.key),
    health: () => lanes,
    async look() {
      const rows = await store.db
        .selectFrom("lanes")
        .select(["key", "status", "reason", "lease_until_ms", databaseNowMs.as("now")])
        .where("chain_id", "=", chainId)
        .orderBy("key")
        .execute();
      lanes = rows.map((row): LaneHealth => {
        const isHeld = row.lease_until_ms > row.now;
        const reason = row.status === "stopped" ? row.reason : isHeld ? null : "no process holds this lane";
        return {
          key: row.key as Address,
          status: row.status === "stopped" || !isHeld ? "stopped" : "standby",
          ...(reason !== null && { reason }),
          isBalanceLow: false,
          isStuck: false,
          inFlight: 0,
          queued: 0,
          oldestPendingSec: 0,
        };
      });
    },
  };
}
