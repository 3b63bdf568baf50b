/** Resolves plan ids to names, in any token, for lists that contain only ids. */
import type { PlanFiguresWire } from "turnpike/facilitator";
import type { Api, Query } from "./api";
import { planName } from "./format";
import { type Loaded, useLoad, useSigned } from "./use";

export type Plan = PlanFiguresWire["plans"][number] & { readonly token: string };

export interface PlanNames {
  find(planId: string): Plan | undefined;
  nameOf(planId: string): string;
  /** of a choice among plans */
  readonly options: Readonly<Record<string, string>>;
}

const MANY = 200;

/** The plans in all tokens. @param range of their figures */
export function useAllPlans(range: Query = {}): Loaded<readonly Plan[]> {
  const { api, tick, supported, signOut } = useSigned();
  return useLoad<readonly Plan[]>({
    name: `plans of all tokens ${JSON.stringify(range)}`,
    async load() {
      const ofToken = (token: string) => api.get("/analytics/plans", { ...range, token, limit: MANY });
      const lists = await Promise.all(supported.tokens.map(({ address }) => ofToken(address)));
      return lists.flatMap(({ plans: some, token }) => some.map((plan) => ({ ...plan, token })));
    },
    again: String(tick),
    signOut,
  });
}

export function usePlanNames(): PlanNames {
  const { data: known = [] } = useAllPlans();
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

/** Reads plans by their ids, also other providers'. */
export async function plansOf(api: Api, ids: readonly string[]) {
  return new Map(await Promise.all([...new Set(ids)].map(async (id) => [id, await api.get(`/plans/${id}`)] as const)));
}
