/** Whether the service can settle now, said part by part. Shows no address of a node and no key but public ones. */
import type { Readiness } from "turnpike/facilitator";
import type { Core } from "./core";
import type { LaneHealth } from "./relayer";

/** Blocks that the reader may be behind, beyond the depth it is set to keep. */
const MAX_LAG_BLOCKS = 100;

/** Whether it can send, and gets mined what it sends. Another process may be the one that holds it. */
export function isLaneWell({ status, isBalanceLow, isStuck }: LaneHealth): boolean {
  return (status === "running" || status === "standby") && !isBalanceLow && !isStuck;
}

export function readinessOf({ config, relayer, indexer, payments }: Core): Readiness {
  const chain = indexer.health();
  const lag = chain.head === undefined ? undefined : chain.head - chain.applied;
  const isCurrent = lag !== undefined && lag < config.confirmations + MAX_LAG_BLOCKS;
  const sender = relayer.health();
  const queue = payments.health();
  const checks = [
    {
      name: "chain",
      ok: chain.ok,
      detail: chain.head === undefined ? "no block was read yet" : `head ${chain.head}, read ${chain.silentSec} s ago`,
    },
    { name: "indexer", ok: isCurrent, detail: `applied ${chain.applied}, ${lag ?? "?"} behind` },
    ...sender.lanes.map((lane) => ({
      name: `lane ${lane.key}`,
      ok: isLaneWell(lane),
      detail: [
        lane.status,
        ...(lane.reason ? [lane.reason] : []),
        ...(lane.isBalanceLow ? ["low on gas money"] : []),
        `${lane.inFlight} in flight, ${lane.queued} queued, oldest ${lane.oldestPendingSec} s`,
      ]
        .join("; ")
        .slice(0, 256),
    })),
    { name: "queue", ok: queue.ok, detail: `${queue.queued} queued, oldest ${queue.oldestQueuedSec} s` },
  ];
  return { ready: chain.ok && isCurrent && sender.ok && queue.ok, checks };
}
