/** Defines the changes of a subscription: what each one signs, may cost, and results in. */
import type { Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import {
  type Hex,
  InvalidRequest,
  isHash32,
  NO_PLAN,
  PlanDeprecated,
  PolicyRefused,
  quoteChange,
  sameAddress,
  secretHashOf,
  TurnpikeError,
  toAmount,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import { requireKnownFields } from "../core/known-fields";
import type { Amount, SpendFacts } from "../core/policy";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { derivedSecret, randomSecret } from "../signing/wallet";
import { change, spendIdOf } from "./change";
import { requireCap, requireFuture } from "./ends";
import { searchDerived } from "./recover";
import {
  entryOf,
  idHashOfSecret,
  readState,
  requireFacilitator,
  type Subscription,
  type SubscriptionRef,
  signedTermsOf,
  termsOf,
  type VerifiedPlan,
  verifiedPlan,
  viewOf,
} from "./subscription";

/** How far ahead a charge is quoted: the credit for unused time shrinks while the change is on its way. */
const QUOTE_AHEAD_SEC = 120;

const EVERY_CHANGE = ["status", "cap", "plan"] as const;

export function pause(context: AgentContext, ref: SubscriptionRef): Promise<Subscription> {
  return change(context, ref, async ({ entry }) => ({
    act: "Pause",
    path: "pause",
    fields: {},
    after: entry,
    isDone: (state) => state.status === "PAUSED",
    overtakes: EVERY_CHANGE,
  }));
}

/** What resuming may charge. */
export interface ResumeOptions {
  /**
   * the most that resuming may charge, base units; default: nothing while the paid period runs, else the plan's price
   */
  readonly maxCharge?: Amount;
}

export function resume(
  context: AgentContext,
  ref: SubscriptionRef,
  options: ResumeOptions = {},
): Promise<Subscription> {
  requireKnownFields(options, ["maxCharge"] satisfies (keyof ResumeOptions)[]);
  return change(context, ref, async ({ ledger, entry, state, nowSec }) => {
    const isPaid = state.status === "PAUSED" && nowSec + QUOTE_AHEAD_SEC < state.paidThrough;
    const maxCharge =
      options.maxCharge === undefined
        ? isPaid
          ? 0n
          : (await nextPeriod(context, entry, state)).price
        : toAmount(options.maxCharge, "maxCharge");
    if (maxCharge > 0n) {
      const { price, periodSec } = await nextPeriod(context, entry, state);
      const spendId = spendIdOf(entry, state.version);
      const facts = { amount: price + state.allowance.cap, firstAmount: maxCharge, periodSec, spendId };
      await requireAllowed(context, ledger, entry, facts);
    }
    return {
      act: "Resume",
      path: "resume",
      fields: { maxCharge },
      maxCharge,
      ...(maxCharge > 0n ? { planned: entry } : {}),
      after: { ...entry, state: "live" },
      isDone: (now) => now.status === "ACTIVE",
      recentChange: "status",
    };
  });
}

/** Price and length of the next charged period: of another plan, when a change is scheduled. */
async function nextPeriod(
  context: AgentContext,
  entry: SubscriptionEntry,
  { nextPlanId }: SubscriptionState,
): Promise<{ readonly price: bigint; readonly periodSec: number }> {
  if (!nextPlanId) return { price: BigInt(entry.amount), periodSec: entry.intervalSec };
  const { amount, interval } = await verifiedPlan(context, requireFacilitator(context, entry.facilitator), nextPlanId);
  return { price: amount, periodSec: interval };
}

/** Judges by the policy what a change lets a subscription cost. @throws PolicyRefused */
async function requireAllowed(
  context: AgentContext,
  ledger: AgentLedger,
  { chainId, token, payTo }: Pick<SubscriptionEntry, "chainId" | "token" | "payTo">,
  costs: Pick<SpendFacts, "amount" | "firstAmount" | "periodSec"> & { readonly spendId?: string },
): Promise<void> {
  const { policy, effects } = context;
  const { spendId: id, ...charged } = costs;
  const amount = (charged.firstAmount ?? 0n).toString();
  const wanted = { amount, payTo, atSec: effects.clock.nowSec(), ...(id !== undefined && { id }) };
  await policy.require({ kind: "subscription", chainId, token, payTo, ...charged }, ledger, () =>
    ledger.requireBudget(wanted, policy.limits),
  );
}

/** When a cancellation takes effect. */
export interface CancelOptions {
  /** serve out what is paid; default false: at once */
  readonly atPeriodEnd?: boolean;
}

export function cancel(
  context: AgentContext,
  ref: SubscriptionRef,
  options: CancelOptions = {},
): Promise<Subscription> {
  requireKnownFields(options, ["atPeriodEnd"] satisfies (keyof CancelOptions)[]);
  const atPeriodEnd = options.atPeriodEnd ?? false;
  return change(context, ref, async ({ entry }) => ({
    act: "Cancel",
    path: "cancel",
    fields: { atPeriodEnd },
    after: atPeriodEnd ? entry : { ...entry, state: "ended" },
    isDone: (state) => state.status === "CANCELLED" || (atPeriodEnd && state.ending),
    ...(atPeriodEnd ? {} : { overtakes: EVERY_CHANGE }),
  }));
}

/** Raises or lowers the cap of metered overage; a raise comes with the token approval it needs. */
export function setMaxOverage(context: AgentContext, ref: SubscriptionRef, cap: Amount): Promise<Subscription> {
  const wanted = requireCap(cap, "cap");
  return change(context, ref, async ({ ledger, entry, state }) => {
    const isRaise = wanted > state.allowance.cap;
    if (isRaise) {
      const present = { price: BigInt(entry.amount), periodSec: entry.intervalSec };
      // The cap stays when a scheduled change applies, on top of that plan's price.
      const next = state.nextPlanId ? [await nextPeriod(context, entry, state)] : [];
      for (const { price, periodSec } of [present, ...next])
        await requireAllowed(context, ledger, entry, { amount: price + wanted, periodSec });
    }
    const after = { ...entry, cap: wanted.toString() };
    return {
      act: "SetMaxOverage",
      path: "max-overage",
      fields: { cap: wanted },
      ...(isRaise ? { planned: after } : {}),
      after,
      isDone: (now) => now.allowance.cap === wanted,
      // A gate with an older record of a lowered cap allows more, so its refusal is current.
      ...(isRaise ? { recentChange: "cap" as const } : { overtakes: ["cap"] as const }),
    };
  });
}

/** @throws InvalidRequest unless it is a time in whole unix seconds, or a Date */
export function requireUntil(until: number | Date): number {
  const untilSec = until instanceof Date ? Math.floor(until.getTime() / 1_000) : until;
  if (Number.isSafeInteger(untilSec) && untilSec > 0) return untilSec;
  throw new InvalidRequest("until must be a time in whole unix seconds, or a Date.");
}

/**
 * Sets, moves or removes (undefined) the subscription's end: from then on nothing is charged, but debits of the period
 * that is paid. A scheduled plan change stays.
 * @throws PolicyRefused for a removal where the policy requires an end; InvalidRequest for an end that is not in the
 * future
 */
export function setUntil(
  context: AgentContext,
  ref: SubscriptionRef,
  until: number | Date | undefined,
): Promise<Subscription> {
  const untilSec = until === undefined ? 0 : requireUntil(until);
  if (untilSec === 0 && context.policy.requireUntil) {
    throw new PolicyRefused("policy.requireUntil is set: move the subscription's end instead of removing it.", {
      reason: "until",
    });
  }
  return change(context, ref, async ({ entry, state, nowSec }) => {
    if (untilSec !== 0 && state.until !== untilSec) requireFuture(untilSec, nowSec);
    return {
      act: "SetNext",
      path: "next",
      fields: { until: untilSec, nextPlanId: state.nextPlanId ?? NO_PLAN },
      after: entry,
      isDone: (now) => (now.until ?? 0) === untilSec,
      overtakes: ["status"],
    };
  });
}

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
    const plan = await planToMoveTo(context, entry, { planId: options.planId, at: "now" });
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
    const plan = await planToMoveTo(context, entry, { planId, at: "periodEnd" });
    const { amount, interval } = plan;
    await requireAllowed(context, ledger, plan, { amount: amount + state.allowance.cap, periodSec: interval });
    // The approval must do for the dearer of the two, until the change is made.
    return amount > BigInt(entry.amount)
      ? { ...scheduled, planned: { ...entry, amount: amount.toString() } }
      : scheduled;
  });
}

/**
 * Reads another plan for a subscription, at once or from the next charge on.
 * @throws TurnpikeError PlanMismatch; PlanDeprecated, PolicyRefused
 */
async function planToMoveTo(
  context: AgentContext,
  entry: SubscriptionEntry,
  { planId, at }: { readonly planId: Hex; readonly at: "now" | "periodEnd" },
): Promise<VerifiedPlan> {
  const plan = await verifiedPlan(context, requireFacilitator(context, entry.facilitator), planId);
  const { token, chainId } = plan;
  if (token !== entry.token || chainId !== entry.chainId) throw new TurnpikeError("PlanMismatch");
  await requireSameProvider(context, entry, { plan, at });
  if (plan.deprecated) throw new PlanDeprecated(undefined, { details: { planId: plan.planId } });
  return plan;
}

/**
 * Both plans must be of one provider, also after the subscription's plan was passed on. The agent's own RPC decides;
 * without one, a change at once signs the new plan's payee, which the contract compares, and a scheduled one does not.
 * @throws TurnpikeError PlanMismatch; PolicyRefused, Unavailable
 */
async function requireSameProvider(
  context: AgentContext,
  { chainId, turnpike, planId, provider, facilitator }: SubscriptionEntry,
  { plan, at }: { readonly plan: VerifiedPlan; readonly at: "now" | "periodEnd" },
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
  if (at === "now") return;
  throw new PolicyRefused(
    `Only the Facilitator says that the plan was passed on to ${plan.provider}: configure \`rpc\` for chain ${chainId}, or change at once.`,
    { reason: "provider" },
  );
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

/** Moves the subscription to a new secret: the old id is invalid from then on. */
export async function rekey(context: AgentContext, ref: SubscriptionRef): Promise<Subscription> {
  const ledger = await context.ledger();
  const old = entryOf(ledger, ref);
  const facilitator = requireFacilitator(context, old.facilitator);
  const { secret, kept } = await freshSecret(context, ledger, old);
  const next: SubscriptionEntry = { ...old, id: idHashOfSecret(old.subscriber, secret), secret: kept, state: "signup" };
  // The new secret is kept before the chain can know of it.
  await ledger.put(next);
  const done = await change(context, old.id, async ({ entry }) => ({
    act: "Rekey",
    path: "rekey",
    fields: { newSecretHash: secretHashOf(secret) },
    after: { ...entry, state: "ended", rekeyedTo: next.id },
    isDone: (state) => state.status === "CANCELLED",
  }));
  const state = await readState(facilitator.client, next.id);
  if (!state) return done;
  const live: SubscriptionEntry = { ...next, state: "live" };
  await ledger.put(live);
  context.recentChanges.mark(live.id, "status");
  return viewOf(context, live, state);
}

async function freshSecret(
  context: AgentContext,
  ledger: AgentLedger,
  entry: SubscriptionEntry,
): Promise<{ secret: Hex; kept: SubscriptionEntry["secret"] }> {
  const { planId, subscriber } = entry;
  const root = await context.roots.ofSubscriptions(entry);
  if (!root) {
    const secret = randomSecret();
    return { secret, kept: { from: "ledger", value: secret } };
  }
  // Numbered under the plan that the first secret came from, where recovery looks for it.
  const under = entry.secret.from === "root" ? entry.secret.planId : planId;
  const facilitator = requireFacilitator(context, entry.facilitator);
  const { nextN } = await searchDerived(ledger, facilitator, { root, planId: under, subscriber });
  return { secret: derivedSecret(root, under, nextN), kept: { from: "root", planId: under, n: nextN } };
}
