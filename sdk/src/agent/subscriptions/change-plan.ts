/** Moves a subscription to another plan of its provider: at once for the quoted charge, or from the next charge on. */
import type { Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import {
  type Hex,
  InvalidRequest,
  isHash32,
  NO_PLAN,
  PolicyRefused,
  quoteChange,
  sameAddress,
  TurnpikeError,
  toAmount,
} from "../../protocol";
import { requireKnownFields } from "../../protocol/arguments";
import type { AgentContext } from "../core/context";
import type { Amount } from "../core/policy-options";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { change, QUOTE_AHEAD_SEC, requireAllowed, spendIdOf } from "./change";
import { requireCap } from "./ends";
import {
  deprecatedPlan,
  nextTermsOf,
  requireFacilitator,
  type Subscription,
  type SubscriptionRef,
  signedTermsOf,
  termsOf,
  type VerifiedPlan,
  verifiedPlan,
} from "./subscription";

/** The new plan, and what the change may charge. */
export interface ChangePlanOptions {
  readonly planId: Hex;
  /**
   * `now`: at once, for the new price less the credit for unused time. `periodEnd`: the next charged period has the new
   * plan's price and length, and the cap stays; the present plan's id drops a change that is scheduled. Default `now`.
   */
  readonly at?: "now" | "periodEnd";
  /** cap under the new plan, base units; default: the cap as it is */
  readonly maxOverage?: Amount;
  /** the most that the change may charge now; default: what it is quoted at */
  readonly maxCharge?: Amount;
}

export function changePlan(
  context: AgentContext,
  ref: SubscriptionRef,
  options: ChangePlanOptions,
): Promise<Subscription> {
  if (!isHash32(options?.planId)) throw new InvalidRequest("planId must be 0x and 64 hex digits.");
  requireKnownFields(options, ["planId", "at", "maxOverage", "maxCharge"] satisfies (keyof ChangePlanOptions)[]);
  if (options.at !== undefined && options.at !== "now" && options.at !== "periodEnd") {
    throw new InvalidRequest('at must be "now" or "periodEnd".');
  }
  if (options.at === "periodEnd") return scheduleChange(context, ref, options);
  return change(context, ref, async ({ ledger, entry, state, nowSec }) => {
    const cap = options.maxOverage === undefined ? state.allowance.cap : requireCap(options.maxOverage, "maxOverage");
    const plan = await planToMoveTo(context, entry, options.planId);
    const maxCharge =
      options.maxCharge === undefined
        ? quoted(entry, state, plan.amount, nowSec)
        : toAmount(options.maxCharge, "maxCharge");
    await requireAllowed(context, ledger, plan, {
      amount: plan.amount + cap,
      firstAmount: maxCharge,
      periodSec: plan.interval,
      spendId: spendIdOf(entry, state.version),
    });
    const after: SubscriptionEntry = { ...entry, ...termsOf(plan), cap: cap.toString() };
    return {
      act: "ChangePlan",
      path: "plan",
      fields: { newPlanId: plan.planId, maxOverage: cap, maxCharge },
      signed: { terms: signedTermsOf(plan) },
      maxCharge,
      planned: after,
      after,
      isDone: (now) => now.planId === plan.planId,
      recentChange: "plan",
    };
  });
}

function scheduleChange(
  context: AgentContext,
  ref: SubscriptionRef,
  { planId, maxOverage, maxCharge }: ChangePlanOptions,
): Promise<Subscription> {
  if (maxOverage !== undefined || maxCharge !== undefined) {
    throw new InvalidRequest('maxOverage and maxCharge are for a change at once: leave them out with at: "periodEnd".');
  }
  return change(context, ref, async ({ ledger, entry, state }) => {
    const isPresent = planId.toLowerCase() === state.planId.toLowerCase();
    const nextPlanId = isPresent ? NO_PLAN : planId;
    const scheduled = {
      act: "SetNext" as const,
      path: "next" as const,
      fields: { until: state.until ?? 0, nextPlanId },
      after: entry,
      isDone: (now: SubscriptionState) => (now.nextPlanId ?? NO_PLAN) === nextPlanId.toLowerCase(),
    };
    if (isPresent) return scheduled;
    const plan = await planToMoveTo(context, entry, planId);
    const { amount, interval } = plan;
    await requireAllowed(context, ledger, plan, { amount: amount + state.allowance.cap, periodSec: interval });
    // The approval must do for the dearer of the two, until the change is made.
    const planned = amount > BigInt(entry.amount) && { planned: { ...entry, amount: amount.toString() } };
    return { ...scheduled, ...nextTermsOf(plan), ...planned };
  });
}

/**
 * Reads another plan for a subscription.
 * @throws TurnpikeError PlanMismatch; PlanDeprecated, PolicyRefused
 */
async function planToMoveTo(context: AgentContext, entry: SubscriptionEntry, planId: Hex): Promise<VerifiedPlan> {
  const plan = await verifiedPlan(context, requireFacilitator(context, entry.facilitator), planId);
  const { token, chainId } = plan;
  if (token !== entry.token || chainId !== entry.chainId) throw new TurnpikeError("PlanMismatch");
  await requireSameProvider(context, entry, plan);
  if (plan.deprecated) throw deprecatedPlan(plan);
  return plan;
}

/**
 * Both plans must be of one provider, also after the subscription's plan was passed on. The agent's own RPC decides;
 * without one the contract does, which compares the payee that is signed, too.
 * @throws TurnpikeError PlanMismatch; PolicyRefused, Unavailable
 */
async function requireSameProvider(
  context: AgentContext,
  { chainId, turnpike, planId, provider, facilitator }: SubscriptionEntry,
  plan: VerifiedPlan,
): Promise<void> {
  const chain = context.chainOf(chainId);
  if (chain) {
    const [present, next] = await Promise.all([chain.plan(turnpike, planId), chain.plan(turnpike, plan.planId)]);
    if (present?.provider !== next?.provider) throw new TurnpikeError("PlanMismatch");
    if (next && sameAddress(next.payTo, plan.payTo)) return;
    throw new PolicyRefused("The Facilitator names another payee of the plan than the chain does.", {
      reason: "plan_terms",
    });
  }
  if (plan.provider === provider) return;
  const present = await verifiedPlan(context, requireFacilitator(context, facilitator), planId);
  if (present.provider !== plan.provider) throw new TurnpikeError("PlanMismatch");
}

/** Quotes a plan change by the contract's own rule, at the latest time at which it should be on chain. */
function quoted(entry: SubscriptionEntry, state: SubscriptionState, newPrice: bigint, nowSec: number): bigint {
  const record = {
    known: true,
    cancelled: false,
    ending: state.ending,
    paused: false,
    paidThroughSec: state.paidThrough,
    intervalSec: entry.intervalSec,
    months: entry.months,
    graceSec: entry.graceSec,
    anchorDay: state.anchorDay ?? 0,
    untilSec: state.until ?? 0,
    intro: state.intro,
  };
  const atSec = Math.min(nowSec + QUOTE_AHEAD_SEC, state.paidThrough);
  const { charge } = quoteChange(record, BigInt(entry.amount), newPrice, atSec);
  if (charge === undefined) throw new TurnpikeError("CreditExceedsPrice");
  return charge;
}
