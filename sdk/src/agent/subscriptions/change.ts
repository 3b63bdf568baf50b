/**
 * Makes one change of a subscription: reads it, signs over the version that it read, posts until the outcome is known,
 * and reads back. A stale version is read again once. Knows no particular change.
 */
import type {
  ChangeAct,
  ChangeRequestWire,
  NextTermsWire,
  Subscription as SubscriptionState,
} from "../../facilitator/subscriptions";
import { type ActFields, actTypedData, PaymentPending, type SignedAct, TurnpikeError } from "../../protocol";
import type { AgentContext, Change } from "../core/context";
import { isRefused, submit } from "../core/facilitators";
import type { SpendFacts } from "../core/policy";
import type { AgentLedger } from "../ledger/ledger";
import type { SpendEntry, SubscriptionEntry } from "../ledger/ledger-store";
import { recordCharge } from "./charges";
import { isoOf, lastUsableSec } from "./ends";
import { type ApprovalFacts, withApproval } from "./permits";
import {
  entryOf,
  onPresentPlan,
  readState,
  requireFacilitator,
  type Subscription,
  type SubscriptionRef,
  signingTimeSec,
  viewOf,
} from "./subscription";

export interface ChangeContext {
  readonly ledger: AgentLedger;
  readonly entry: SubscriptionEntry;
  readonly state: SubscriptionState;
  readonly nowSec: number;
}

export interface PlannedChange<S extends SignedAct> {
  readonly act: S;
  readonly path: ChangeAct;
  /** what the request carries beside version, deadline and signature */
  readonly fields: Omit<ActFields[S], "terms" | "token">;
  /** what is signed besides: the terms or the token of a plan */
  readonly signed?: Pick<ActFields[S], Extract<keyof ActFields[S], "terms" | "token">>;
  /** what the request carries of the terms that are signed */
  readonly shown?: NextTermsWire;
  /** the most that this may charge now; counted against the budget */
  readonly maxCharge?: bigint;
  /** the changed entry, where it needs more token approval than now */
  readonly planned?: SubscriptionEntry;
  readonly after: SubscriptionEntry;
  readonly isDone: (state: SubscriptionState) => boolean;
  /** what a gate may not have seen at once, and refuse for */
  readonly recentChange?: Change;
  /** earlier changes that explain no refusal any more */
  readonly overtakes?: readonly Change[];
}

export async function change<S extends SignedAct>(
  context: AgentContext,
  ref: SubscriptionRef,
  plan: (current: ChangeContext) => Promise<PlannedChange<S>>,
): Promise<Subscription> {
  const ledger = await context.ledger();
  const { id } = entryOf(ledger, ref);
  return ledger.serialize(`change:${id}`, async () => {
    let wasUnsure = false;
    for (let attempt = 0; ; attempt++) {
      const current = await readCurrent(context, ledger, entryOf(ledger, id));
      const planned = await plan(current);
      if (wasUnsure && planned.isDone(current.state)) return conclude(context, current, planned, current.state);
      const result = await perform(context, current, planned);
      wasUnsure ||= result.wasUnsure;
      if (result.kind === "done") {
        const state = await readState(requireFacilitator(context, current.entry.facilitator).client, id);
        return conclude(context, current, planned, state ?? current.state);
      }
      const { code } = result.error;
      if (code === "StaleVersion" && attempt === 0) continue;
      const { id: idHash, planId } = current.entry;
      context.effects.emit({ type: "subscription.failed", act: planned.path, idHash, planId, code });
      throw result.error;
    }
  });
}

async function readCurrent(
  context: AgentContext,
  ledger: AgentLedger,
  known: SubscriptionEntry,
): Promise<ChangeContext> {
  const facilitator = requireFacilitator(context, known.facilitator);
  const state = await readState(facilitator.client, known.id);
  if (!state) throw known.state === "signup" ? signupPending(known) : new TurnpikeError("UnknownSubscription");
  const entry = await onPresentPlan(context, ledger, known, state.planId);
  const chain = context.chainOf(entry.chainId);
  const [nowSec, onChain] = await Promise.all([
    signingTimeSec(context, entry.chainId, state.chainTimeSec),
    chain?.subscription(entry.turnpike, entry.id),
  ]);
  return { ledger, entry, state: chain ? { ...state, version: onChain?.version ?? 0 } : state, nowSec };
}

/** There is nothing to change yet, and what was signed may still make it. */
function signupPending({ id: idHash, planId, signup }: SubscriptionEntry): PaymentPending {
  const usableUntilSec = signup && lastUsableSec(signup);
  const until = usableUntilSec === undefined ? "" : ` until ${isoOf(usableUntilSec)}`;
  return new PaymentPending(
    `The signup of subscription ${idHash} is not confirmed, and can still be made${until}. Call agent.void("${idHash}") to withdraw it, or agent.subscribe({ planId: "${planId}" }) to finish it.`,
    { reason: "signup", details: { idHash, planId, ...(usableUntilSec !== undefined && { usableUntilSec }) } },
  );
}

type Performed =
  | { readonly kind: "done"; readonly wasUnsure: boolean }
  | { readonly kind: "refused"; readonly error: TurnpikeError; readonly wasUnsure: boolean };

async function perform<S extends SignedAct>(
  context: AgentContext,
  current: ChangeContext,
  plan: PlannedChange<S>,
): Promise<Performed> {
  const { ledger, entry } = current;
  if (!plan.planned) return post(context, current, plan, undefined);
  const facilitator = requireFacilitator(context, entry.facilitator);
  const when = plan.act === "Resume" ? ("low" as const) : ("whole" as const);
  const need = { ledger, facilitator, deployment: entry, token: entry.token, planned: plan.planned, when };
  return withApproval(context, need, (approval) => post(context, current, plan, approval));
}

async function post<S extends SignedAct>(
  context: AgentContext,
  { ledger, entry, state, nowSec }: ChangeContext,
  plan: PlannedChange<S>,
  approval: ApprovalFacts | undefined,
): Promise<Performed> {
  const spend = plan.maxCharge
    ? spendOf(context, entry, { amount: plan.maxCharge, version: state.version })
    : undefined;
  const earlier = spend && ledger.spend(spend.id);
  const reserved = spend && (await ledger.reserve(spend, context.policy.limits));
  const deadline = BigInt(nowSec + context.policy.maxWindowSec);
  const { version } = state;
  const message = { subscriber: entry.subscriber, idHash: entry.id, version, deadline, ...plan.fields, ...plan.signed };
  const names = { act: plan.path, idHash: entry.id, planId: entry.planId };
  context.effects.emit({ type: "subscription.signing", ...names });
  const typedData = actTypedData(entry, plan.act, message as unknown as Parameters<typeof actTypedData<S>>[2]);
  const signature = await context.signer.sign(typedData).catch(async (error: unknown) => {
    // What was signed before over the same version can still be charged.
    if (reserved) await ledger.put(earlier ?? { ...reserved, state: "released" });
    throw error;
  });
  const fields = Object.fromEntries(
    Object.entries(plan.fields).map(([name, value]) => [name, typeof value === "bigint" ? value.toString() : value]),
  );
  const permit = approval?.permit ? { permit: approval.permit } : {};
  const terms = plan.shown && { terms: plan.shown };
  const request = {
    ...fields,
    ...terms,
    version,
    deadline: deadline.toString(),
    signature,
    ...permit,
  } as ChangeRequestWire;
  const { client } = requireFacilitator(context, entry.facilitator);
  context.effects.emit({ type: "subscription.submitted", ...names });
  const { outcome, wasUnsure } = await submit(context.effects, {
    idHash: entry.id,
    post: () => client.change({ idHash: entry.id, act: plan.path, request }),
    onPending: () => context.effects.emit({ type: "subscription.pending", ...names }),
  });
  if (!isRefused(outcome)) return { kind: "done", wasUnsure };
  // The charge stays in the budget: a version that is stale may have been used by this very request.
  return { kind: "refused", error: outcome.error, wasUnsure };
}

/** Names what a change of this version takes from the budget. */
export const spendIdOf = ({ id }: SubscriptionEntry, version: number): string => `change:${id}:${version}`;

function spendOf(
  context: AgentContext,
  entry: SubscriptionEntry,
  { amount, version }: { readonly amount: bigint; readonly version: number },
): SpendEntry {
  const id = spendIdOf(entry, version);
  const atSec = context.effects.clock.nowSec();
  return { type: "spend", id, state: "held", atSec, payTo: entry.payTo, amount: amount.toString() };
}

async function conclude<S extends SignedAct>(
  context: AgentContext,
  { ledger, state: before }: ChangeContext,
  plan: PlannedChange<S>,
  state: SubscriptionState,
): Promise<Subscription> {
  await ledger.put(plan.after);
  if (plan.maxCharge) await recordCharge(ledger, spendIdOf(plan.after, before.version), plan.after, state);
  context.recentChanges.drop(plan.after.id, plan.overtakes ?? []);
  if (plan.recentChange) context.recentChanges.mark(plan.after.id, plan.recentChange);
  const { id: idHash, planId } = plan.after;
  context.effects.emit({ type: "subscription.changed", idHash, planId, act: plan.path });
  return viewOf(context, plan.after, state);
}

/** How far ahead a charge is quoted: the credit for unused time shrinks while the change is on its way. */
export const QUOTE_AHEAD_SEC = 120;

/** Judges by the policy what a change lets a subscription cost. @throws PolicyRefused */
export async function requireAllowed(
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
