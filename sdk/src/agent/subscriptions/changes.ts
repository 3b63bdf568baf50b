/** Defines the changes of a subscription: what each one signs, may cost, and results in. */
import type { Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import { type Hex, InvalidRequest, NO_PLAN, PolicyRefused, secretHashOf, toAmount } from "../../protocol";
import { requireKnownFields } from "../../protocol/arguments";
import type { AgentContext } from "../core/context";
import type { Amount } from "../core/policy-options";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { derivedSecret, randomSecret } from "../signing/wallet";
import { change, QUOTE_AHEAD_SEC, requireAllowed, spendIdOf } from "./change";
import { requireCap, requireFuture } from "./ends";
import { searchDerived } from "./recover";
import {
  entryOf,
  idHashOfSecret,
  nextTermsOf,
  readState,
  requireFacilitator,
  type Subscription,
  type SubscriptionRef,
  verifiedPlan,
  viewOf,
} from "./subscription";

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
      signed: { token: entry.token },
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

/** Sets the cap of metered overage, within the policy; 0 is always allowed. */
export function setMaxOverage(context: AgentContext, ref: SubscriptionRef, cap: Amount): Promise<Subscription> {
  const wanted = requireCap(cap, "cap");
  return change(context, ref, async ({ ledger, entry, state }) => {
    const isRaise = wanted > state.allowance.cap;
    // Also what looks like less: the Facilitator may report a higher cap than there is.
    if (wanted > 0n) {
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
      signed: { token: entry.token },
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
    const { nextPlanId } = state;
    const next =
      nextPlanId && (await verifiedPlan(context, requireFacilitator(context, entry.facilitator), nextPlanId));
    return {
      act: "SetNext",
      path: "next",
      fields: { until: untilSec, nextPlanId: nextPlanId ?? NO_PLAN },
      ...(next && nextTermsOf(next)),
      after: entry,
      isDone: (now) => (now.until ?? 0) === untilSec,
      overtakes: ["status"],
    };
  });
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
