import { type Selectable, sql } from "kysely";
import type { Db, Tx } from "../db/open";
import { idList } from "../db/sql";
import type {
  AllowancesTable,
  DebitsTable,
  OperatorsTable,
  PlansTable,
  SubscriptionsTable,
} from "../db/tables/subscriptions";

export type PlanRow = Selectable<PlansTable>;

export type OperatorRow = Selectable<OperatorsTable>;

export type SubscriptionRow = Selectable<SubscriptionsTable>;

export type AllowanceRow = Selectable<AllowancesTable>;

export type DebitRow = Selectable<DebitsTable>;

/** Projections of the subscriptions' rows. */
export interface RecordProjection {
  /** Runs `change`, which changes these subscriptions or their plans, and updates the derived rows. */
  around(tx: Tx, chainId: number, idHashes: readonly string[], change: () => Promise<void>): Promise<void>;
}

/** The planId of an id hash that was voided: it has no plan. */

export const operatorKey = (planId: string, operator: string): string => `${planId}/${operator}`;

export const debitKey = (idHash: string, index: number): string => `${idHash}/${index}`;

export function plansOf(db: Db, chainId: number, planIds: Iterable<string>): Promise<PlanRow[]> {
  return db
    .selectFrom("plans")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`plan_id = any(${idList(planIds)})`)
    .execute();
}

export function subscriptionsOf(db: Db, chainId: number, idHashes: Iterable<string>): Promise<SubscriptionRow[]> {
  return db
    .selectFrom("subscriptions")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`id_hash = any(${idList(idHashes)})`)
    .execute();
}

export function allowancesOf(db: Db, chainId: number, idHashes: Iterable<string>): Promise<AllowanceRow[]> {
  return db
    .selectFrom("allowances")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`id_hash = any(${idList(idHashes)})`)
    .execute();
}
