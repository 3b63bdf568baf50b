/** Selects the plan to subscribe to, and its Facilitator: named by the caller, or taken from a URL's 402. */

import type { VoucherWire } from "../../facilitator/subscriptions";
import {
  type Address,
  findNetwork,
  type Hex,
  InvalidRequest,
  isHash32,
  isTurnpikeError,
  type PlanTerms,
  PolicyRefused,
  sameAddress,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import type { Facilitator } from "../core/facilitators";
import type { Amount } from "../core/policy-options";
import { isPrivateChannel, sendWithinOrigin, templateOf } from "../core/request";
import { quoteOf } from "../payments/dialects";
import type { ParsedQuote } from "../payments/quote";
import { requireFacilitator, type VerifiedPlan, verifiedPlan } from "./subscription";

/** What to subscribe to, and on what terms; amounts in base units. */
export interface SubscribeOptions {
  readonly planId?: Hex;
  /**
   * Take the plan from what this URL's 402 offers (the cheapest, or `planId` if it is among them), and record its
   * origin.
   */
  readonly url?: string | URL;
  /** cap of metered overage per cycle, base units; default 0: none */
  readonly maxOverage?: Amount;
  /**
   * Ends the subscription by itself: from then on nothing is charged, but debits of the period that is paid. Unix seconds
   * or a Date, in the future. Default: none.
   */
  readonly until?: number | Date;
  /** Asks the provider for another first period, such as a trial; without an answer the plan's price is paid. */
  readonly voucher?: (request: VoucherRequest) => Promise<VoucherWire | undefined>;
  /** where the subscription may be used: URLs, and `stdio:<name>` for an MCP server without a URL */
  readonly origins?: readonly string[];
  /** base URL of one of the agent's Facilitators; default: the one that the 402 names, or the first */
  readonly facilitator?: string;
  /** how many periods the token approval should cover; default 12 */
  readonly periods?: number;
  /** buy another one even if this agent already has one on the plan, active, paused or past due; default false */
  readonly another?: boolean;
}

/** What a voucher must name: it is good for this subscriber and this secret alone. */
export interface VoucherRequest {
  readonly chainId: number;
  readonly turnpike: Address;
  readonly planId: Hex;
  readonly subscriber: Address;
  readonly secretHash: Hex;
  /** the plan's */
  readonly token: Address;
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

/** A plan that a 402 offers, with its terms proven where one of the agent's Facilitators can be asked. */
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

/** Lists the offered plans, cheapest first. A plan without terms that no Facilitator knows is left out. */
export async function offeredPlansOf(context: AgentContext, quote: ParsedQuote): Promise<readonly PlanPrice[]> {
  const ledger = await context.ledger();
  const reported = new Map<Hex, PlanTerms | undefined>(quote.offers.map(({ planId }) => [planId, undefined]));
  for (const terms of quote.plans) reported.set(terms.planId, terms);
  const live = new Set(
    ledger.subscriptions().flatMap(({ state, planId }) => (state === "live" ? [planId.toLowerCase()] : [])),
  );
  const plans = await Promise.all(
    [...reported].map(async ([planId, terms]): Promise<PlanPrice[]> => {
      const named = quote.offers.find((offer) => offer.planId === planId)?.facilitator;
      const proof = await provenTerms(context, planId, named);
      const known = proof.plan ? shownOf(proof.plan) : terms && reportedOf(context, terms);
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

/**
 * Proves a plan's terms. An outage leaves them unproven, without a reason; false terms or another contract are a
 * reason.
 */
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
  network,
  chainId,
  token,
  payTo,
  amount,
  intervalSec: interval,
});

function reportedOf(context: AgentContext, { network = "", token, payTo, amount, interval }: PlanTerms) {
  const chainId = findNetwork(network, context.networks)?.chainId;
  return { network, chainId, token, payTo, amount, intervalSec: interval };
}

function isSame(plan: VerifiedPlan, reported: PlanTerms): boolean {
  return (
    plan.amount === reported.amount && plan.interval === reported.interval && sameAddress(plan.token, reported.token)
  );
}
