/** The events that the mere passing of time makes: no log of the chain stands behind them, so their id is made of what they say. */
import { sql } from "kysely";
import { keccakText } from "turnpike/protocol";
import { subscriptionPayload } from "../indexer/payloads";
import type { Tx } from "../store/open";
import { appendEvents, type EventDraft, lockFeed } from "../store/tables/events";
import type { PlansTable } from "../store/tables/plans";
import type { AllowancesTable, SubscriptionsTable } from "../store/tables/subscriptions";

export interface ClockEvent {
  readonly idHash: string;
  /** the period that it is about: nothing is told once the subscription is in another */
  readonly paidThroughSec: number;
  readonly type: string;
  /** tells it apart from others of the same type and period, e.g. the number of the attempt */
  readonly mark?: number | string;
  /** beside the subscription's own state */
  readonly more?: Readonly<Record<string, unknown>>;
}

/** @returns how many were new */
export async function tellClockEvents(
  tx: Tx,
  chainId: number,
  told: readonly ClockEvent[],
  nowSec: number,
): Promise<number> {
  if (told.length === 0) return 0;
  await lockFeed(tx, chainId);
  const ids = [...new Set(told.map((event) => event.idHash))];
  const rows = await tx
    .selectFrom("subscriptions")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`id_hash = any(${ids}::text[])`)
    .execute();
  const planIds = [...new Set(rows.map((row) => row.plan_id))];
  const plans = await tx
    .selectFrom("plans")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`plan_id = any(${planIds}::text[])`)
    .execute();
  const allowances = await tx
    .selectFrom("allowances")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`id_hash = any(${ids}::text[])`)
    .execute();
  const byId = new Map<string, SubscriptionsTable>(rows.map((row) => [row.id_hash, row]));
  const planOf = new Map<string, PlansTable>(plans.map((plan) => [plan.plan_id, plan]));
  const allowanceOf = new Map<string, AllowancesTable>(allowances.map((row) => [row.id_hash, row]));
  const drafts = told.flatMap(({ idHash, paidThroughSec, type, mark, more }): EventDraft[] => {
    const row = byId.get(idHash);
    const plan = row && planOf.get(row.plan_id);
    if (!row || !plan || row.paid_through !== paidThroughSec) return [];
    return [
      {
        id: keccakText([chainId, idHash, type, paidThroughSec, ...(mark === undefined ? [] : [mark])].join("/")),
        chainId,
        type,
        objectId: idHash,
        provider: plan.provider,
        payer: row.subscriber,
        payload: { ...subscriptionPayload(row, plan, allowanceOf.get(idHash), nowSec), ...more },
        blockTime: nowSec,
      },
    ];
  });
  return appendEvents(tx, drafts);
}
