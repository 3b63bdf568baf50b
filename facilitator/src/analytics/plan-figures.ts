/** Builds the figures of a provider's plans. */
import type { PlanFiguresWire } from "turnpike/facilitator";
import { type Address, periodOf } from "turnpike/protocol";
import { DAY_SEC } from "../lib/durations";
import { type PlanFigures, planFigures, schemesToWire, sumToWire } from "./queries";
import { type AnalyticsOptions, createRanges, type FiguresQuery, type PagedRows } from "./ranges";

export interface PlansFigures {
  plans(provider: Address, query: FiguresQuery & { readonly limit: number }): Promise<PlanFiguresWire>;
  /** All plans in order of creation, one page at a time. */
  allPlans(provider: Address, query: FiguresQuery): PagedRows<PlanFiguresWire["plans"][number]>;
}

export function createPlanFigures({ db, config, clock }: AnalyticsOptions): PlansFigures {
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async plans(provider, query) {
      const { scope, unit } = scopeOf(provider, query.token);
      const range = rangeOf(query, DAY_SEC);
      const page = { nowSec: clock.nowSec(), limit: query.limit };
      const plans = await planFigures(db, { ...scope, provider }, range, page);
      return {
        ...unit,
        from: range.fromSec,
        to: range.toSec,
        plans: plans.map(planToWire),
      };
    },

    allPlans(provider, query) {
      const { scope, unit } = scopeOf(provider, query.token);
      const range = rangeOf(query, DAY_SEC);
      return {
        unit,
        async pageAfter(cursor, limit) {
          const page = { nowSec: clock.nowSec(), limit, afterIndex: Number(cursor ?? -1) };
          const plans = await planFigures(db, { ...scope, provider }, range, page);
          return { rows: plans.map(planToWire), ...(plans.length === limit && { next: String(plans.at(-1)?.index) }) };
        },
      };
    },
  };
}

function planToWire(plan: PlanFigures): PlanFiguresWire["plans"][number] {
  return {
    planId: plan.planId,
    metadata: plan.metadata,
    price: plan.price.toString(),
    interval: plan.intervalSec,
    period: periodOf(plan),
    payTo: plan.payTo,
    ...(plan.proposed && { proposedPayTo: plan.proposed }),
    deprecated: plan.deprecated,
    active: plan.active,
    recurring: plan.recurring.toString(),
    ...sumToWire(plan),
    byScheme: schemesToWire(plan.byScheme),
  };
}
