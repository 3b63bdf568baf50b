/** Which plan to subscribe to, and through whom: named by the caller, or taken from what a URL's 402 offers. */
import { type Hex, InvalidRequest, isHash32, PolicyRefused } from "../protocol";
import type { AgentContext } from "./context";
import type { Facilitator } from "./facilitators";
import { quoteOf } from "./pay";
import type { Amount } from "./policy";
import { isPrivateChannel, sendWithinOrigin, templateOf } from "./request";
import { requireFacilitator, type VerifiedPlan, verifiedPlan } from "./subscription";

/** What to subscribe to, and on what terms; amounts in base units. */
export interface SubscribeOptions {
  readonly planId?: Hex;
  /** Take the plan from what this URL's 402 offers (the cheapest, or `planId` if it is among them), and record its origin. */
  readonly url?: string | URL;
  /** cap of metered overage per cycle, base units; default 0: none */
  readonly maxOverage?: Amount;
  /** where `agent.fetch` may use the subscription */
  readonly origins?: readonly string[];
  /** base URL of one of the agent's Facilitators; default: the one that the 402 names, or the first */
  readonly facilitator?: string;
  /** how many periods the token approval should cover; default 12 */
  readonly periods?: number;
  /** buy another one even if this agent already has a live subscription on the plan; default false */
  readonly another?: boolean;
}

export interface Offer {
  readonly facilitator: Facilitator;
  readonly plan: VerifiedPlan;
  readonly origins: readonly string[];
}

/** @throws PolicyRefused when nothing suitable is offered; InvalidRequest when neither plan nor URL is named */
export async function offerOf(context: AgentContext, { planId, url, facilitator }: SubscribeOptions): Promise<Offer> {
  if (planId !== undefined && !isHash32(planId)) throw new InvalidRequest("planId must be 0x and 64 hex digits.");
  if (url === undefined) {
    if (planId === undefined) throw new InvalidRequest("subscribe needs a planId or a url.");
    const chosen = requireFacilitator(context, facilitator);
    return { facilitator: chosen, plan: await verifiedPlan(context, chosen, planId), origins: [] };
  }
  const template = await templateOf(url);
  if (!context.policy.allowHttp && !isPrivateChannel(template.url)) {
    throw new PolicyRefused("The agent subscribes only over https.", { reason: "insecure_origin" });
  }
  const arrival = await sendWithinOrigin(context.effects, template, {});
  const quote = arrival.response.status === 402 ? await quoteOf(context, arrival) : undefined;
  const named = [
    ...(quote?.offers ?? []),
    ...(quote?.plans ?? []).map((terms) => ({ planId: terms.planId, facilitator: undefined })),
  ];
  const wanted = new Map<Hex, string | undefined>();
  for (const { planId: offered, facilitator: base } of named) {
    const isWanted = planId === undefined || offered === planId.toLowerCase();
    if (isWanted) wanted.set(offered, wanted.get(offered) ?? base);
  }
  if (wanted.size === 0) {
    throw new PolicyRefused("No such subscription is offered there.", { reason: "no_plan" });
  }
  const offers = await Promise.all(
    [...wanted].map(async ([offered, base]) => {
      const chosen = requireFacilitator(context, facilitator ?? base);
      return { facilitator: chosen, plan: await verifiedPlan(context, chosen, offered) };
    }),
  );
  const [cheapest] = offers.sort((a, b) =>
    a.plan.amount < b.plan.amount ? -1 : a.plan.amount > b.plan.amount ? 1 : 0,
  );
  if (!cheapest) throw new PolicyRefused("No such subscription is offered there.", { reason: "no_plan" });
  return { ...cheapest, origins: [new URL(arrival.template.url).origin] };
}
