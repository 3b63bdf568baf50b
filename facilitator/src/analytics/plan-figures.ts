import type { OverviewWire, PlanFiguresWire } from "turnpike/facilitator";
import { type Address, type Hex, periodOf } from "turnpike/protocol";
import type { Db } from "../db/open";
import { DAY_SEC } from "../lib/durations";
import { proposalOf } from "../subscriptions/payloads";
import { type PlanFigures, type PlanOrder, planFigures } from "./plan-sums";
import { netToWire, schemesToWire } from "./queries";
import {
  type AnalyticsOptions,
  createRanges,
  cursorAfter,
  type FiguresQuery,
  type PagedRows,
  placeOf,
  type Scope,
} from "./ranges";

export interface PlansFigures {
  plans(provider: Address, query: FiguresQuery & PlanOrder): Promise<PlanFiguresWire>;
  allPlans(provider: Address, query: FiguresQuery): PagedRows<PlanFiguresWire["plans"][number]>;
}

/** What a cursor has: a figure and the index of a plan. */
const PLACE = /^\d{1,78} \d{1,15}$/;

export function createPlanFigures({ db, config, clock }: AnalyticsOptions): PlansFigures {
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async plans(provider, query) {
      const { scope, unit } = scopeOf(provider, query.token);
      const range = rangeOf(query, DAY_SEC);
      const page = { nowSec: clock.nowSec(), limit: query.limit, by: query, after: placeOf(query, PLACE) };
      const plans = await planFigures(db, { ...scope, provider }, range, page);
      return {
        ...unit,
        from: range.fromSec,
        to: range.toSec,
        plans: plans.map((plan) => planToWire(plan, provider)),
        ...cursorAfter(
          query,
          plans.map(({ figure, index }) => ({ figure, id: String(index) })),
        ),
      };
    },

    allPlans(provider, query) {
      const { scope, unit } = scopeOf(provider, query.token);
      const range = rangeOf(query, DAY_SEC);
      return {
        unit,
        async pageAfter(cursor, limit) {
          const page = { nowSec: clock.nowSec(), limit, after: { id: cursor ?? "-1" } };
          const plans = await planFigures(db, { ...scope, provider }, range, page);
          const rows = plans.map((plan) => planToWire(plan, provider));
          return { rows, ...(plans.length === limit && { next: String(plans.at(-1)?.index) }) };
        },
      };
    },
  };
}

const MOST_PROPOSALS = 20;

/** Reads the plans with another payee that is proposed, the first to apply first. */
export async function payeeProposals(
  db: Db,
  { chainId, provider }: Pick<Scope, "chainId" | "provider">,
): Promise<OverviewWire["payeeProposals"]> {
  const rows = await db
    .selectFrom("plans")
    .select(["plan_id", "proposed_pay_to", "pay_to_effective_at"])
    .where("chain_id", "=", chainId)
    .where("proposed_pay_to", "is not", null)
    .$if(provider !== undefined, (query) => query.where("provider", "=", provider ?? ""))
    .orderBy("pay_to_effective_at")
    .orderBy("plan_id")
    .limit(MOST_PROPOSALS)
    .execute();
  return rows.flatMap((row) => {
    const proposed = proposalOf(row);
    return proposed ? [{ planId: row.plan_id as Hex, payTo: proposed.payTo, effectiveAt: proposed.effectiveAt }] : [];
  });
}

function planToWire(plan: PlanFigures, provider: Address): PlanFiguresWire["plans"][number] {
  return {
    planId: plan.planId,
    metadata: plan.metadata,
    price: plan.price.toString(),
    interval: plan.intervalSec,
    period: periodOf(plan),
    payTo: plan.payTo,
    ...(plan.proposed && { proposedPayTo: plan.proposed }),
    deprecated: plan.deprecated,
    stopped: plan.stopped,
    ...(plan.provider !== provider && { transferredTo: plan.provider }),
    active: plan.active,
    recurring: plan.recurring.toString(),
    ...netToWire(plan),
    byScheme: schemesToWire(plan.byScheme, plan.byScheme.keys()),
  };
}
