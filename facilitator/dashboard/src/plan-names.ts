/** What the provider's plans are called, for lists that know only their ids. */
import type { PlanFiguresWire } from "turnpike/facilitator";
import { planName } from "./format";
import { useGet } from "./use";

type Plan = PlanFiguresWire["plans"][number];

export interface PlanNames {
  find(planId: string): Plan | undefined;
  nameOf(planId: string): string;
  /** of a choice among them */
  readonly options: Readonly<Record<string, string>>;
}

export function usePlanNames(): PlanNames {
  const plans = useGet<PlanFiguresWire>("/analytics/plans", { limit: 200 });
  const known = plans.kind === "ready" ? plans.data.plans : [];
  const find = (planId: string): Plan | undefined => known.find((plan) => plan.planId === planId);
  return {
    find,
    nameOf: (planId) => planName(find(planId)?.metadata ?? "", planId),
    options: {
      "": "All",
      ...Object.fromEntries(known.map((plan) => [plan.planId, planName(plan.metadata, plan.planId)])),
    },
  };
}
