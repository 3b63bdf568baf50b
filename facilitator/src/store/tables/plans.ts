/** Plans and their operators, as the chain's events tell them. */
import { sql } from "kysely";
import { idList } from "../lists";
import type { Db } from "../open";

export interface PlansTable {
  chain_id: number;
  plan_id: string;
  plan_index: number;
  provider: string;
  token: string;
  amount: string;
  interval_sec: number;
  grace_sec: number;
  pay_to: string;
  salt: string;
  metadata: string;
  deprecated: boolean;
  successor: string | null;
  block_number: number;
  created_at: number;
}

export interface OperatorsTable {
  chain_id: number;
  plan_id: string;
  operator: string;
  allowed: boolean;
}

export function plansOf(db: Db, chainId: number, planIds: Iterable<string>): Promise<PlansTable[]> {
  return db
    .selectFrom("plans")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`plan_id = any(${idList(planIds)})`)
    .execute();
}
