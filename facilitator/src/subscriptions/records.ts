/**
 * Reads subscriptions and plans from the database, with the status computed for the chain's time. Makes no chain
 * request.
 */
import type { PlanWire, SubscriptionWire } from "turnpike/facilitator";
import { type Address, checksum, type Hex, NO_PLAN, periodOf, type SubscriptionStatus } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Db } from "../db/open";
import { lengthOfPlan, proposalOf, statusOf as statusOfRow } from "./payloads";
import { type AllowanceRow, allowancesOf, type PlanRow, plansOf, type SubscriptionRow } from "./rows";

export interface SubscriptionRecord {
  readonly row: SubscriptionRow;
  readonly plan: PlanRow;
  readonly allowance: AllowanceRow | undefined;
}

/** A record of which the plan may be absent: that of an id hash that was voided. */
type Standing = Pick<SubscriptionRecord, "row" | "allowance"> & { readonly plan: PlanRow | undefined };

export async function findSubscription(db: Db, chainId: number, idHash: Hex): Promise<SubscriptionRecord | undefined> {
  const row = await db
    .selectFrom("subscriptions")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("id_hash", "=", idHash)
    .executeTakeFirst();
  const plan = row && (await findPlan(db, chainId, row.plan_id as Hex));
  if (!row || !plan) return undefined;
  const allowance = await db
    .selectFrom("allowances")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("id_hash", "=", idHash)
    .executeTakeFirst();
  return { row, plan, allowance };
}

/** A page of a wallet's subscriptions. */
export interface SubscriptionPage {
  /** `createdAt.idHash` of the last one before */
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Lists the newest first. Excludes records that were moved to another key. */
export async function listSubscriptions(
  db: Db,
  chainId: number,
  subscriber: Address,
  { cursor, limit }: SubscriptionPage,
): Promise<{ readonly records: SubscriptionRecord[]; readonly next: string | undefined }> {
  const newest = db
    .selectFrom("subscriptions")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("subscriber", "=", subscriber)
    .where("moved_to", "is", null)
    .where("plan_id", "!=", NO_PLAN);
  const [createdAt = "", idHash = ""] = cursor?.split(".") ?? [];
  const older = newest.where(({ eb, and, or }) =>
    or([
      eb("created_at", "<", Number(createdAt)),
      and([eb("created_at", "=", Number(createdAt)), eb("id_hash", ">", idHash)]),
    ]),
  );
  const rows = await (cursor === undefined ? newest : older)
    .orderBy("created_at", "desc")
    .orderBy("id_hash")
    .limit(limit + 1)
    .execute();
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  return { records: await recordsOf(db, chainId, shown), next: last && `${last.created_at}.${last.id_hash}` };
}

/** Loads the related rows of the given rows with two queries, whatever their number. */
export async function recordsOf(
  db: Db,
  chainId: number,
  rows: readonly SubscriptionRow[],
): Promise<SubscriptionRecord[]> {
  if (rows.length === 0) return [];
  const ids = rows.map((row) => row.id_hash);
  // Sequential: `db` may be a transaction, which has one connection.
  const plans = await plansOf(db, chainId, new Set(rows.map((row) => row.plan_id)));
  const allowances = await allowancesOf(db, chainId, ids);
  const planOf = new Map(plans.map((plan) => [plan.plan_id, plan]));
  const allowanceOf = new Map(allowances.map((allowance) => [allowance.id_hash, allowance]));
  return rows.flatMap((row) => {
    const plan = planOf.get(row.plan_id);
    return plan ? [{ row, plan, allowance: allowanceOf.get(row.id_hash) }] : [];
  });
}

export function findPlan(db: Db, chainId: number, planId: Hex): Promise<PlanRow | undefined> {
  return db
    .selectFrom("plans")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("plan_id", "=", planId)
    .executeTakeFirst();
}

export interface PlanPage {
  readonly provider?: Address | undefined;
  readonly after: number;
  readonly limit: number;
}

export function listPlans(db: Db, chainId: number, { provider, after, limit }: PlanPage): Promise<PlanRow[]> {
  let query = db.selectFrom("plans").selectAll().where("chain_id", "=", chainId).where("plan_index", ">", after);
  if (provider) query = query.where("provider", "=", provider);
  return query.orderBy("plan_index").limit(limit).execute();
}

/** Finds an id hash that its subscriber voided: it can never be signed up. */
export function findVoided(db: Db, chainId: number, idHash: Hex): Promise<SubscriptionRow | undefined> {
  return db
    .selectFrom("subscriptions")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("id_hash", "=", idHash)
    .where("plan_id", "=", NO_PLAN)
    .executeTakeFirst();
}

export const statusOf = ({ row, plan }: Standing, nowSec: number): SubscriptionStatus => statusOfRow(row, plan, nowSec);

export function subscriptionToWire(record: Standing, config: FacilitatorConfig, nowSec: number): SubscriptionWire {
  const { row, allowance } = record;
  const cap = BigInt(allowance?.cap ?? "0");
  const spent = allowance && allowance.cycle === row.paid_through ? BigInt(allowance.spent) : 0n;
  return {
    idHash: row.id_hash,
    network: config.network.name,
    chainId: config.chainId,
    subscriber: row.subscriber,
    planId: row.plan_id,
    status: statusOf(record, nowSec),
    paidThrough: row.paid_through,
    version: row.version,
    ending: row.ending,
    intro: row.intro,
    ...(row.anchor_day !== 0 && { anchorDay: row.anchor_day }),
    ...(row.until !== 0 && { until: row.until }),
    ...(row.next_plan_id && { nextPlanId: row.next_plan_id }),
    allowance: {
      cap: cap.toString(),
      spent: spent.toString(),
      remaining: (cap > spent ? cap - spent : 0n).toString(),
      debits: allowance?.debits ?? 0,
    },
    ...(row.moved_to && { rekeyedTo: row.moved_to }),
    chainTimeSec: nowSec,
  };
}

export function planToWire(plan: PlanRow, config: FacilitatorConfig): PlanWire {
  const proposed = proposalOf(plan);
  return {
    planId: plan.plan_id,
    network: config.network.name,
    chainId: config.chainId,
    turnpike: config.turnpike,
    provider: checksum(plan.provider as Address),
    token: plan.token,
    amount: plan.amount,
    interval: plan.interval_sec,
    period: periodOf(lengthOfPlan(plan)),
    grace: plan.grace_sec,
    payTo: plan.pay_to,
    firstProvider: checksum((plan.first_provider ?? plan.provider) as Address),
    firstPayTo: plan.first_pay_to ?? plan.pay_to,
    ...(proposed && { proposedPayTo: proposed }),
    salt: plan.salt,
    metadata: plan.metadata,
    deprecated: plan.deprecated,
    stopped: plan.stopped_at !== null,
    ...(plan.successor && { successor: plan.successor }),
  };
}
