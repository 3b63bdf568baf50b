/** Looks whether the payees of subscribed plans are to move or have moved, and does what the policy says. */
import type { Plan } from "../../chain/plans";
import { isTurnpikeError, sameAddress } from "../../protocol";
import type { AgentContext } from "../core/context";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { cancel } from "./changes";
import {
  entryOf,
  onPresentPlan,
  requireFacilitator,
  type SubscriptionOnChain,
  stateOnChain,
  verifiedPlan,
} from "./subscription";

/** How often `fetch` looks at one subscription, seconds. A proposal waits for seven days. */
const LOOK_EVERY_SEC = 21_600;

/**
 * Looks at every live subscription of the ledger; given `used`, only at those that were not looked at for a while. Does
 * nothing where the policy does not ask for it. What cannot be read, or not be cancelled, is left for the next look.
 */
export async function watchPayees(context: AgentContext, used?: readonly SubscriptionEntry[]): Promise<void> {
  const { effects, payeeLooks, policy } = context;
  if (!policy.onPayeeChange) return;
  const ledger = await context.ledger();
  const nowSec = effects.clock.nowSec();
  for (const entry of used ?? ledger.subscriptions()) {
    const isRecent = nowSec < (payeeLooks.get(entry.id) ?? Number.NEGATIVE_INFINITY) + LOOK_EVERY_SEC;
    if (entry.state !== "live" || (used && isRecent)) continue;
    payeeLooks.set(entry.id, nowSec);
    try {
      await look(context, ledger, entry);
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
    }
  }
}

async function look(context: AgentContext, ledger: AgentLedger, known: SubscriptionEntry): Promise<void> {
  const state = await stateOnChain(context, known);
  if (!state || state.status === "CANCELLED") return;
  const entry = await onPresentPlan(context, ledger, known, state.planId);
  const { payTo, proposedPayTo: proposed } = await presentPlan(context, entry);
  const hasMoved = !sameAddress(payTo, entry.payTo);
  const isProposed = proposed !== undefined && !isSameProposal(proposed, entry.proposedPayTo);
  const isWithdrawn = proposed === undefined && entry.proposedPayTo !== undefined;
  if (!hasMoved && !isProposed && !isWithdrawn) return;
  const { onPayeeChange: response } = context.policy;
  if (response && (hasMoved || isProposed)) {
    const { id: idHash, planId, payTo: knownPayTo } = entry;
    const names = { type: "subscription.payee_change", idHash, planId } as const;
    context.effects.emit({ ...names, knownPayTo, payTo, proposed, response });
    if (response === "cancel") await end(context, entry, state, proposed);
  }
  // Kept last: what could not be cancelled is found again.
  const { proposedPayTo: _before, ...now } = entryOf(ledger, entry.id);
  await ledger.put({ ...now, payTo, ...(proposed && { proposedPayTo: proposed }) });
}

/** Ends it with the period where no debit of the period can reach the other payee; else at once. */
async function end(
  context: AgentContext,
  { id }: SubscriptionEntry,
  { paidThrough, ending, allowance }: SubscriptionOnChain,
  proposed: Plan["proposedPayTo"],
): Promise<void> {
  const endsBefore = proposed !== undefined && paidThrough <= proposed.effectiveAtSec;
  const atPeriodEnd = allowance.cap === 0n || endsBefore;
  if (!(ending && atPeriodEnd)) await cancel(context, id, { atPeriodEnd });
}

function isSameProposal(one: NonNullable<Plan["proposedPayTo"]>, other: Plan["proposedPayTo"] | undefined): boolean {
  return other !== undefined && sameAddress(one.payTo, other.payTo) && one.effectiveAtSec === other.effectiveAtSec;
}

/** Reads a plan by the agent's own RPC where it has one, else from the Facilitator. @throws TurnpikeError */
async function presentPlan(context: AgentContext, { chainId, turnpike, planId, facilitator }: SubscriptionEntry) {
  const onChain = await context.chainOf(chainId)?.plan(turnpike, planId);
  if (onChain) return onChain;
  const { payTo, proposedPayTo } = await verifiedPlan(context, requireFacilitator(context, facilitator), planId);
  return {
    payTo,
    proposedPayTo: proposedPayTo && { payTo: proposedPayTo.payTo, effectiveAtSec: proposedPayTo.effectiveAt },
  };
}
