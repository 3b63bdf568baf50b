/** Reports by part whether the service can settle now. Shows no address of a node and only public keys. */
import type { Readiness } from "turnpike/facilitator";
import type { Network } from "turnpike/protocol";
import { describeSilence } from "../chain/node-health";
import type { IndexerHealth } from "../indexer";
import { TOO_DEEP_REMEDY } from "../indexer/fork-resolver";
import type { Relayer } from "../relayer";
import type { LaneHealth } from "../relayer/lane-state";
import type { Core } from "./core";

export const MAX_DETAIL = 256;

/** Reports whether it can send transactions and get them mined. Another process may hold the lane. */
export function isLaneWell({ status, isBalanceLow, isStuck }: LaneHealth): boolean {
  return (status === "running" || status === "standby") && !isBalanceLow && !isStuck;
}

function detailOfChain({ head, silentSec, isSilent, keptTo, isTooDeep }: IndexerHealth, { nodes }: Relayer): string {
  if (head === undefined) return "no block was read yet";
  if (isTooDeep) return `head ${head}; it was reorganised ${TOO_DEEP_REMEDY}`;
  const silence = isSilent ? `; ${describeSilence(nodes.nodes())}` : "";
  const seen = `head ${head}, read ${silentSec} s ago${silence}`;
  return keptTo === undefined
    ? seen
    : `${seen}; it moved back: payments in blocks above ${keptTo} are not confirmed until the chain has grown past them`;
}

function detailOfIndexer({ applied, head, lagSec, isSilent }: IndexerHealth, isCurrent: boolean, isStored: boolean) {
  const behind = head === undefined ? undefined : Math.max(0, head - applied);
  const place = `applied ${applied}, ${behind ?? "?"} blocks behind the head, ${lagSec} s late`;
  if (!isStored) return `${place}; the database is away`;
  return isCurrent || isSilent || !behind ? place : `${place}; catching up ${behind} blocks`;
}

/** @param network asked for; of another one than this chain nothing is known */
export function readinessOf({ config, database, relayer, indexer, payments }: Core, network?: Network): Readiness {
  if (network && network.chainId !== config.chainId) return notServed(network);
  const stored = database.health();
  const chain = indexer.health();
  const isCurrent = chain.head !== undefined && chain.lagSec <= config.maxLagSec;
  const sender = relayer.health();
  const queue = payments.health();
  const checks = [
    { name: "database", ok: stored.ok, detail: stored.detail },
    {
      name: "chain",
      ok: chain.ok,
      detail: detailOfChain(chain, relayer).slice(0, MAX_DETAIL),
    },
    {
      name: "indexer",
      ok: isCurrent,
      detail: detailOfIndexer(chain, isCurrent, stored.ok),
    },
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
        .slice(0, MAX_DETAIL),
    })),
    // Without a lane, none of the checks above says why nothing is sent.
    ...(sender.lanes.length === 0
      ? [{ name: "lanes", ok: sender.ok, detail: (sender.reason ?? "none").slice(0, MAX_DETAIL) }]
      : []),
    { name: "queue", ok: queue.ok, detail: `${queue.queued} queued, oldest ${queue.oldestQueuedSec} s` },
  ];
  return { ready: stored.ok && chain.ok && isCurrent && sender.ok && queue.ok, checks };
}

export const notServed = ({ name }: Network): Readiness => ({
  ready: false,
  checks: [{ name: `${name}: start`, ok: false, detail: "this process does not serve it" }],
});
