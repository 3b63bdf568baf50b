/** Builds an event's payload: the full state of its object after the event, in wire terms. Pure. */
import { type PeriodLength, periodOf, STATUSES, type SubscriptionStatus, statusAt } from "turnpike/protocol";
import type { AllowanceRow, PlanRow, SubscriptionRow } from "./rows";

export function planPayload(plan: PlanRow): Record<string, unknown> {
  return {
    planId: plan.plan_id,
    provider: plan.provider,
    token: plan.token,
    amount: plan.amount,
    interval: plan.interval_sec,
    period: periodOf(lengthOfPlan(plan)),
    grace: plan.grace_sec,
    payTo: plan.pay_to,
    proposedPayTo: proposalOf(plan) ?? null,
    metadata: plan.metadata,
    deprecated: plan.deprecated,
    stopped: plan.stopped_at !== null,
    successor: plan.successor,
  };
}

export const lengthOfPlan = ({ interval_sec, months }: Pick<PlanRow, "interval_sec" | "months">): PeriodLength => ({
  intervalSec: interval_sec,
  months,
});

/** The payee that is proposed, and from when on anyone can apply the proposal. */
export function proposalOf(
  plan: Pick<PlanRow, "proposed_pay_to" | "pay_to_effective_at">,
): { readonly payTo: string; readonly effectiveAt: number } | undefined {
  const { proposed_pay_to: payTo, pay_to_effective_at: effectiveAt } = plan;
  return payTo === null || effectiveAt === null ? undefined : { payTo, effectiveAt };
}

export function statusOf(subscription: SubscriptionRow, plan: PlanRow | undefined, atSec: number): SubscriptionStatus {
  if (!plan) return subscription.cancelled ? "CANCELLED" : STATUSES[0];
  return statusAt(
    {
      known: true,
      cancelled: subscription.cancelled,
      ending: subscription.ending,
      paused: subscription.paused,
      paidThroughSec: subscription.paid_through,
      ...lengthOfPlan(plan),
      anchorDay: subscription.anchor_day,
      untilSec: subscription.until,
      graceSec: plan.grace_sec,
    },
    atSec,
  );
}

export function subscriptionPayload(
  subscription: SubscriptionRow,
  plan: PlanRow | undefined,
  allowance: AllowanceRow | undefined,
  atSec: number,
): Record<string, unknown> {
  return {
    idHash: subscription.id_hash,
    subscriber: subscription.subscriber,
    planId: subscription.plan_id,
    provider: plan?.provider ?? null,
    token: plan?.token ?? null,
    price: plan?.amount ?? null,
    status: statusOf(subscription, plan, atSec),
    paidThrough: subscription.paid_through,
    version: subscription.version,
    ending: subscription.ending,
    intro: subscription.intro,
    until: subscription.until === 0 ? null : subscription.until,
    nextPlanId: subscription.next_plan_id,
    allowance: allowance ? allowancePayload(allowance, subscription.paid_through) : null,
  };
}

export function allowancePayload(allowance: AllowanceRow, paidThroughSec: number): Record<string, unknown> {
  const spent = spentIn(allowance, paidThroughSec);
  const cap = BigInt(allowance.cap);
  const remaining = spent < cap ? cap - spent : 0n;
  return { cap: allowance.cap, spent: spent.toString(), remaining: remaining.toString(), debits: allowance.debits };
}

/** Spent amounts apply to their own cycle only. */
export function spentIn(allowance: AllowanceRow, paidThroughSec: number): bigint {
  return allowance.cycle === paidThroughSec ? BigInt(allowance.spent) : 0n;
}
