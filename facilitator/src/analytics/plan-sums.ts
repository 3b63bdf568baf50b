import { sql } from "kysely";
import { SCHEMES, type Scheme } from "turnpike/facilitator";
import type { Db } from "../db/open";
import { proposalOf } from "../subscriptions/payloads";
import type { NetSum, Sum } from "./queries";
import type { Ordered, Range, Scope } from "./ranges";
import { REFUNDS, type VolumeScheme } from "./rollups";
import { activeByPlan, activePlans, inAMonth, MONTH_SEC } from "./standing";

export interface PlanFigures extends NetSum {
  readonly planId: string;
  /** counts the contract's plans */
  readonly index: number;
  readonly provider: string;
  readonly metadata: string;
  readonly price: bigint;
  readonly intervalSec: number;
  readonly months: number;
  readonly payTo: string;
  readonly proposed: ReturnType<typeof proposalOf>;
  readonly deprecated: boolean;
  readonly stopped: boolean;
  /** active now; 0 for a plan that is another provider's now */
  readonly active: number;
  /** 30-day revenue of the active ones, base units, rounded down */
  readonly recurring: bigint;
  readonly byScheme: ReadonlyMap<Scheme, Sum>;
}

/** What orders plans. */
const PLAN_FIGURES = {
  revenue: sql`coalesce(m.amount, 0)`,
  active: sql`coalesce(a.active, 0)`,
  recurring: sql`div(p.amount * coalesce(a.active, 0) * ${sql.lit(Number(MONTH_SEC))}, p.interval_sec)`,
} as const;

export type PlanOrder = Ordered<keyof typeof PLAN_FIGURES>;

export interface PlanPage {
  readonly nowSec: number;
  readonly limit: number;
  /** by a figure; absent: in the order in which they were made */
  readonly by?: Pick<PlanOrder, "sort" | "order">;
  /** starts behind this row; its id is the plan's index */
  readonly after?: { readonly figure?: string; readonly id: string } | undefined;
}

/** Reads the provider's plans, and those that it had passed on to another one after they were charged. */
export async function planFigures(
  db: Db,
  scope: Scope & { readonly provider: string },
  range: Range,
  { nowSec, limit, by, after }: PlanPage,
): Promise<(PlanFigures & { readonly figure: string })[]> {
  const { chainId, provider, token } = scope;
  const figure = by ? PLAN_FIGURES[by.sort] : sql`0::numeric`;
  const way = sql.raw(by?.order ?? "asc");
  const behind = sql.raw(by?.order === "desc" ? "<" : ">");
  const isByActive = by && by.sort !== "revenue";
  const own = sql`provider = ${provider} and token = ${token}`;
  const active = isByActive
    ? sql`left join (${activePlans(chainId, own, nowSec)}) a on a.plan_id = p.plan_id and p.provider = ${provider}`
    : sql``;
  const { rows } = await sql<PlanRow>`
    with by_scheme as (select plan_id, kind as scheme, sum(count) as count, sum(amount) as amount from rollup_plans
        where chain_id = ${chainId} and provider = ${provider} and token = ${token}
          and bucket >= ${range.fromSec} and bucket < ${range.toSec} group by 1, 2),
    by_plan as materialized (select plan_id, sum(count) filter (where scheme <> ${REFUNDS}) as count,
        sum(amount) filter (where scheme <> ${REFUNDS}) as amount,
        json_agg(json_build_object('scheme', scheme, 'count', count, 'amount', amount::text)) as schemes
      from by_scheme group by plan_id)
    select p.plan_id, p.plan_index, p.provider, p.metadata, p.amount as price, p.interval_sec, p.months,
      p.pay_to, p.proposed_pay_to, p.pay_to_effective_at, p.deprecated, p.stopped_at, m.schemes,
      coalesce(m.count, 0)::int8 as count, coalesce(m.amount, 0) as amount, (${figure})::text as figure
    from plans p left join by_plan m on m.plan_id = p.plan_id ${active}
    where p.chain_id = ${chainId} and p.token = ${token} and p.plan_id in (
      select plan_id from plans where chain_id = ${chainId} and provider = ${provider} union select plan_id from by_plan)
      ${after ? sql`and (${figure}, p.plan_index) ${behind} (${after.figure ?? 0}::numeric, ${after.id}::bigint)` : sql``}
    order by ${figure} ${way}, p.plan_index ${way} limit ${limit}`.execute(db);
  const ids = rows.map((row) => row.plan_id);
  const activeOf = await activeByPlan(db, chainId, ids, nowSec);
  return rows.map((row) => {
    const live = row.provider === provider ? (activeOf.get(row.plan_id) ?? 0) : 0;
    const sums = new Map(
      (row.schemes ?? []).map(({ scheme, count, amount }) => [scheme, { count, amount: BigInt(amount) }]),
    );
    return {
      planId: row.plan_id,
      figure: row.figure,
      index: row.plan_index,
      provider: row.provider,
      metadata: row.metadata,
      price: BigInt(row.price),
      intervalSec: row.interval_sec,
      months: row.months,
      payTo: row.pay_to,
      proposed: proposalOf(row),
      deprecated: row.deprecated,
      stopped: row.stopped_at !== null,
      count: row.count,
      amount: BigInt(row.amount),
      active: live,
      recurring: inAMonth(BigInt(row.price) * BigInt(live), row.interval_sec),
      refunds: sums.get(REFUNDS) ?? { count: 0, amount: 0n },
      byScheme: new Map(SCHEMES.flatMap((scheme) => entryOf(sums, scheme))),
    };
  });
}

function entryOf(sums: ReadonlyMap<VolumeScheme, Sum>, scheme: Scheme): [Scheme, Sum][] {
  const sum = sums.get(scheme);
  return sum ? [[scheme, sum]] : [];
}

interface PlanRow {
  readonly plan_id: string;
  readonly plan_index: number;
  readonly provider: string;
  readonly metadata: string;
  readonly price: string;
  readonly interval_sec: number;
  readonly months: number;
  readonly pay_to: string;
  readonly proposed_pay_to: string | null;
  readonly pay_to_effective_at: number | null;
  readonly deprecated: boolean;
  readonly stopped_at: number | null;
  readonly count: number;
  readonly amount: string;
  readonly figure: string;
  readonly schemes:
    | readonly { readonly scheme: VolumeScheme; readonly count: number; readonly amount: string }[]
    | null;
}
