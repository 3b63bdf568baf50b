/** The plans that a 402 offers, with their terms proven where one of the agent's Facilitators can be asked. */
import { type Address, findNetwork, type Hex, isTurnpikeError, type PlanTerms, sameAddress } from "../protocol";
import type { AgentContext } from "./context";
import type { Quote } from "./quote";
import { type VerifiedPlan, verifiedPlan } from "./subscription";

export interface PlanPrice {
  readonly planId: Hex;
  readonly name: string | undefined;
  readonly network: string;
  readonly chainId: number | undefined;
  readonly token: Address;
  readonly payTo: Address | undefined;
  /** price of one interval, base units */
  readonly amount: bigint;
  readonly intervalSec: number;
  readonly metered: boolean;
  readonly verified: boolean;
  readonly subscribed: boolean;
  /** why the agent would not subscribe to it */
  readonly reason: string | undefined;
}

/** Cheapest first. A plan that is named without terms, and that no Facilitator knows, is left out. */
export async function offeredPlansOf(context: AgentContext, quote: Quote): Promise<readonly PlanPrice[]> {
  const book = await context.book();
  const told = new Map<Hex, PlanTerms | undefined>(quote.offers.map(({ planId }) => [planId, undefined]));
  for (const terms of quote.plans) told.set(terms.planId, terms);
  const live = new Set(
    book.subscriptions().flatMap(({ state, planId }) => (state === "live" ? [planId.toLowerCase()] : [])),
  );
  const plans = await Promise.all(
    [...told].map(async ([planId, terms]): Promise<PlanPrice[]> => {
      const named = quote.offers.find((offer) => offer.planId === planId)?.facilitator;
      const proof = await provenTerms(context, planId, named);
      const known = proof.plan ? shownOf(proof.plan) : terms && toldOf(context, terms);
      if (!known) return [];
      const lies = proof.plan && terms && !isSame(proof.plan, terms);
      const reason = lies ? "plan_terms" : proof.plan?.deprecated ? "deprecated" : proof.reason;
      const subscribed = live.has(planId.toLowerCase());
      const verified = proof.plan !== undefined;
      return [{ ...known, planId, name: terms?.name, metered: terms?.metered ?? false, verified, subscribed, reason }];
    }),
  );
  return plans
    .flat()
    .sort((a, b) => (a.amount !== b.amount ? (a.amount < b.amount ? -1 : 1) : a.planId < b.planId ? -1 : 1));
}

/** An outage leaves the terms unproven and says nothing against them; a lie or a stranger's contract does. */
async function provenTerms(
  context: AgentContext,
  planId: Hex,
  named: string | undefined,
): Promise<{ readonly plan?: VerifiedPlan; readonly reason?: string }> {
  const facilitator = context.facilitators.find(named);
  if (!facilitator) return { reason: "facilitator" };
  try {
    return { plan: await verifiedPlan(context, facilitator, planId) };
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    if (error.code === "Unavailable") return {};
    return { reason: error.reason ?? (error.code === "ConfigError" ? "deployment" : error.code) };
  }
}

const shownOf = ({ network, chainId, token, payTo, amount, interval }: VerifiedPlan) => ({
  ...{ network, chainId, token, payTo, amount },
  intervalSec: interval,
});

function toldOf(context: AgentContext, { network = "", token, payTo, amount, interval }: PlanTerms) {
  const chainId = findNetwork(network, context.networks)?.chainId;
  return { network, chainId, token, payTo, amount, intervalSec: interval };
}

function isSame(plan: VerifiedPlan, told: PlanTerms): boolean {
  return plan.amount === told.amount && plan.interval === told.interval && sameAddress(plan.token, told.token);
}
