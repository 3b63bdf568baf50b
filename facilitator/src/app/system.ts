/** Reports the service's internals to its operators: the figures behind readiness, and the costs of the last day. */
import type { System } from "turnpike/facilitator";
import { type Costs, centsOf } from "../analytics/costs";
import { readReconciled } from "../db/reconciled";
import { warnedUntilSec } from "../subscriptions/renewals/at-risk";
import { LEASE_SEC } from "../subscriptions/renewals/runner";
import { countDue, lookAhead } from "../subscriptions/renewals/work-list";
import { countPending } from "../webhooks/delivery-log";
import type { Core } from "./core";
import { isLaneWell, readinessOf } from "./readiness";

export async function systemOf(core: Core, costs: Pick<Costs, "ofLastDay" | "nativePrice">): Promise<System> {
  const { config, store, relayer, indexer, payments } = core;
  const { chainId, confirmations, rpcUrls } = config;
  const { head, silentSec, applied } = indexer.health();
  const { queued, oldestQueuedSec } = payments.health();
  const nowSec = indexer.clock.nowSec();
  const [nodes, renewalsDue, ahead, warnedUntil, webhooksPending, reconciled, spent] = await Promise.all([
    relayer.nodes.refreshNodes(),
    countDue(store.db, chainId, nowSec),
    lookAhead(store.db, chainId, nowSec, LEASE_SEC),
    warnedUntilSec(store.db, chainId),
    countPending(store.db, chainId),
    readReconciled(store.db, chainId),
    costs.ofLastDay(),
  ]);
  const { nativePrice } = costs;
  const { lanes } = relayer.health();
  const spentWei = spent.reduce((sum, { wei }) => sum + wei, 0);
  return {
    ...readinessOf(core),
    chain: { ...(head !== undefined && { head }), silentSec, applied, confirmations, nodes: rpcUrls.length },
    rpcNodes: [...nodes],
    lanes: lanes.map((lane) => ({
      address: lane.key,
      status: lane.status,
      isWell: isLaneWell(lane),
      ...(lane.reason && { reason: lane.reason.slice(0, 256) }),
      ...(lane.balanceWei !== undefined && {
        balanceWei: lane.balanceWei.toString(),
        ...(spentWei > 0 && { daysLeft: Math.floor((Number(lane.balanceWei) * lanes.length) / spentWei) }),
      }),
      inFlight: lane.inFlight,
      queued: lane.queued,
      oldestPendingSec: lane.oldestPendingSec,
    })),
    payments: { queued, oldestQueuedSec },
    ...(reconciled && { reconciled }),
    renewalsDue,
    renewalsUnderWay: ahead.underWay,
    ...(ahead.nextDueSec !== undefined && { nextRenewalAt: ahead.nextDueSec }),
    ...(warnedUntil !== undefined && { warnedUntil }),
    webhooksPending,
    costs: spent.map((sum) => ({
      ...sum,
      ...(nativePrice !== undefined && { cents: Number(centsOf(sum.wei, nativePrice).toPrecision(6)) }),
    })),
  };
}
