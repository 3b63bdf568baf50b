/**
 * How one change of a subscription is made: read, signed over the version it was read at, posted until its outcome is
 * known, read back. A version that turns out stale is read again once. Knows no particular change.
 */
import type { ChangeAct, ChangeRequestWire, Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import { type ActFields, actTypedData, type SignedAct, TurnpikeError } from "../../protocol";
import type { AgentContext, Change } from "../core/context";
import { believedTimeSec, isRefused, submit } from "../core/facilitators";
import type { Book } from "../ledger/ledger";
import type { SpendEntry, SubscriptionEntry } from "../ledger/ledger-store";
import { type ApprovalFacts, withApproval } from "./permits";
import {
  entryOf,
  readState,
  requireFacilitator,
  type Subscription,
  type SubscriptionRef,
  viewOf,
} from "./subscription";

export interface Standing {
  readonly book: Book;
  readonly entry: SubscriptionEntry;
  readonly state: SubscriptionState;
  readonly nowSec: number;
}

export interface PlannedChange<S extends SignedAct> {
  readonly act: S;
  readonly path: ChangeAct;
  readonly fields: ActFields[S];
  /** the most that this may charge now; counted against the budget */
  readonly maxCharge?: bigint;
  /** the entry as it will stand, where it needs more token approval than now */
  readonly planned?: SubscriptionEntry;
  /** what the ledger keeps once it is done */
  readonly after: SubscriptionEntry;
  readonly isDone: (state: SubscriptionState) => boolean;
  /** what a gate may not have seen at once, and refuse for */
  readonly fresh?: Change;
  /** earlier changes that explain no refusal any more */
  readonly overtakes?: readonly Change[];
}

export async function change<S extends SignedAct>(
  context: AgentContext,
  ref: SubscriptionRef,
  plan: (standing: Standing) => Promise<PlannedChange<S>>,
): Promise<Subscription> {
  const book = await context.book();
  const { id } = entryOf(book, ref);
  return book.inTurn(`change:${id}`, async () => {
    let wasUnsure = false;
    for (let attempt = 0; ; attempt++) {
      const standing = await standingOf(context, book, entryOf(book, id));
      const planned = await plan(standing);
      if (wasUnsure && planned.isDone(standing.state)) return conclude(context, standing, planned, standing.state);
      const result = await perform(context, standing, planned);
      wasUnsure ||= result.wasUnsure;
      if (result.kind === "done") {
        const state = await readState(requireFacilitator(context, standing.entry.facilitator).client, id);
        return conclude(context, standing, planned, state ?? standing.state);
      }
      const { code } = result.error;
      if (code === "StaleVersion" && attempt === 0) continue;
      const { id: idHash, planId } = standing.entry;
      context.effects.emit({ type: "subscription.failed", act: planned.path, idHash, planId, code });
      throw result.error;
    }
  });
}

async function standingOf(context: AgentContext, book: Book, entry: SubscriptionEntry): Promise<Standing> {
  const facilitator = requireFacilitator(context, entry.facilitator);
  const state = await readState(facilitator.client, entry.id);
  if (!state) throw new TurnpikeError("UnknownSubscription");
  const chain = context.chainOf(entry.chainId);
  const [timeSec, version] = await Promise.all([chain?.timeSec(), chain?.version(entry.turnpike, entry.id)]);
  const nowSec =
    context.chainClock?.nowSec() ?? timeSec ?? believedTimeSec(state.chainTimeSec, entry.chainId, context.networks);
  return { book, entry, state: version === undefined ? state : { ...state, version }, nowSec };
}

type Performed =
  | { readonly kind: "done"; readonly wasUnsure: boolean }
  | { readonly kind: "refused"; readonly error: TurnpikeError; readonly wasUnsure: boolean };

async function perform<S extends SignedAct>(
  context: AgentContext,
  standing: Standing,
  plan: PlannedChange<S>,
): Promise<Performed> {
  const { book, entry } = standing;
  if (!plan.planned) return post(context, standing, plan, undefined);
  const facilitator = requireFacilitator(context, entry.facilitator);
  const when = plan.act === "Resume" ? ("low" as const) : ("whole" as const);
  const need = { book, facilitator, deployment: entry, token: entry.token, planned: plan.planned, when };
  return withApproval(context, need, (approval) => post(context, standing, plan, approval));
}

async function post<S extends SignedAct>(
  context: AgentContext,
  { book, entry, state, nowSec }: Standing,
  plan: PlannedChange<S>,
  approval: ApprovalFacts | undefined,
): Promise<Performed> {
  const spend = plan.maxCharge
    ? spendOf(context, entry, { amount: plan.maxCharge, version: state.version })
    : undefined;
  if (spend) await book.reserve(spend, context.policy.limits);
  const deadline = BigInt(nowSec + context.policy.maxWindowSec);
  const { version } = state;
  const message = { subscriber: entry.subscriber, idHash: entry.id, version, deadline, ...plan.fields };
  const names = { act: plan.path, idHash: entry.id, planId: entry.planId };
  context.effects.emit({ type: "subscription.signing", ...names });
  const signature = await context.signer.sign(actTypedData(entry, plan.act, message));
  const fields = Object.fromEntries(
    Object.entries(plan.fields).map(([name, value]) => [name, typeof value === "bigint" ? value.toString() : value]),
  );
  const permit = approval?.permit ? { permit: approval.permit } : {};
  const request = { ...fields, version, deadline: deadline.toString(), signature, ...permit } as ChangeRequestWire;
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

function spendOf(
  context: AgentContext,
  entry: SubscriptionEntry,
  { amount, version }: { readonly amount: bigint; readonly version: number },
): SpendEntry {
  const id = `change:${entry.id}:${version}`;
  const atSec = context.effects.clock.nowSec();
  return { type: "spend", id, state: "held", atSec, payTo: entry.payTo, amount: amount.toString() };
}

async function conclude<S extends SignedAct>(
  context: AgentContext,
  { book }: Standing,
  plan: PlannedChange<S>,
  state: SubscriptionState,
): Promise<Subscription> {
  await book.put(plan.after);
  context.fresh.drop(plan.after.id, plan.overtakes ?? []);
  if (plan.fresh) context.fresh.mark(plan.after.id, plan.fresh);
  const { id: idHash, planId } = plan.after;
  context.effects.emit({ type: "subscription.changed", idHash, planId, act: plan.path });
  return viewOf(context, plan.after, state);
}
