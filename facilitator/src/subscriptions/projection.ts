/** Applies each Turnpike event to plans, subscriptions, allowances and debits, as the contract does. Pure. */
import type { Hex } from "turnpike/protocol";
import type { TurnpikeFact } from "../chain/facts";
import { chainEventId, type EventDraft } from "../events/event";
import { type BlockInput, type BlockRules, whereOf } from "../events/projection";
import type { SubscriptionState } from "./block-rows";
import { planPayload, spentIn, subscriptionPayload } from "./payloads";
import { type AllowanceRow, debitKey, operatorKey, type SubscriptionRow } from "./rows";

/** percent of the cap at which `allowance.threshold_reached` is emitted */
const THRESHOLD_PERCENT = 80n;

const LAST_VERSION = 65_535;

export const turnpikeRules = (input: BlockInput, state: SubscriptionState): BlockRules => ({
  apply(fact, events) {
    if (fact.kind === "turnpike") applyTurnpike(input, state, fact, events);
  },
});

function applyTurnpike(input: BlockInput, state: SubscriptionState, fact: TurnpikeFact, events: EventDraft[]): void {
  const { event } = fact;
  const { chainId, block } = input;

  const tell = (type: string, idHash: Hex, more: Record<string, unknown> = {}): void => {
    const subscription = state.subscriptions.get(idHash);
    if (!subscription) return;
    const plan = state.plans.get(subscription.plan_id);
    events.push({
      id: chainEventId(chainId, block.hash, fact.logIndex, type),
      type,
      objectId: idHash,
      provider: plan?.provider,
      payer: subscription.subscriber,
      payload: {
        ...subscriptionPayload(subscription, plan, state.allowances.get(idHash), block.timestampSec),
        ...more,
      },
      ...whereOf(input),
      logIndex: fact.logIndex,
      transaction: fact.transaction,
    });
  };
  const tellPlan = (type: string, planId: Hex): void => {
    const plan = state.plans.get(planId);
    if (!plan) return;
    events.push({
      id: chainEventId(chainId, block.hash, fact.logIndex, type),
      type,
      objectId: planId,
      provider: plan.provider,
      payload: planPayload(plan),
      ...whereOf(input),
      logIndex: fact.logIndex,
      transaction: fact.transaction,
    });
  };
  const change = (idHash: Hex, next: (row: SubscriptionRow) => Partial<SubscriptionRow>): void => {
    const row = state.subscriptions.get(idHash);
    if (row) state.subscriptions.put(idHash, { ...row, ...next(row) });
  };

  switch (event.name) {
    case "PlanCreated":
      state.plans.put(event.planId, {
        chain_id: chainId,
        plan_id: event.planId,
        plan_index: event.index,
        provider: event.provider,
        token: event.terms.token,
        amount: event.terms.amount.toString(),
        interval_sec: event.terms.intervalSec,
        grace_sec: event.terms.graceSec,
        pay_to: event.terms.payTo,
        salt: event.salt,
        metadata: storableText(event.metadata),
        deprecated: false,
        successor: null,
        block_number: block.number,
        created_at: block.timestampSec,
      });
      tellPlan("plan.created", event.planId);
      break;
    case "PlanClosed": {
      const plan = state.plans.get(event.planId);
      if (!plan) break;
      const successor = /^0x0+$/.test(event.successor) ? null : event.successor;
      state.plans.put(event.planId, { ...plan, deprecated: true, successor });
      tellPlan("plan.deprecated", event.planId);
      break;
    }
    case "OperatorSet":
      state.operators.put(operatorKey(event.planId, event.operator), {
        chain_id: chainId,
        plan_id: event.planId,
        operator: event.operator,
        allowed: event.allowed,
      });
      break;
    case "Subscribed":
      state.subscriptions.put(event.idHash, {
        chain_id: chainId,
        id_hash: event.idHash,
        subscriber: event.subscriber,
        plan_id: event.planId,
        paid_through: event.paidThroughSec,
        version: 0,
        paused: false,
        ending: false,
        cancelled: false,
        moved_to: null,
        block_number: block.number,
        created_at: block.timestampSec,
        transaction: fact.transaction,
      });
      if (event.maxOverage > 0n)
        setAllowance(state, chainId, event.idHash, { cap: event.maxOverage, cycle: event.paidThroughSec });
      tell("subscription.created", event.idHash, { charged: state.plans.get(event.planId)?.amount ?? null });
      break;
    case "Renewed":
      change(event.idHash, () => ({ paid_through: event.paidThroughSec }));
      tell("subscription.renewed", event.idHash, { charged: priceOf(state, event.idHash) });
      break;
    case "Paused":
      change(event.idHash, (row) => ({ paused: true, version: row.version + 1 }));
      tell("subscription.paused", event.idHash);
      break;
    case "Resumed":
      change(event.idHash, (row) => ({ paused: false, paid_through: event.paidThroughSec, version: row.version + 1 }));
      tell("subscription.resumed", event.idHash, { charged: event.charged.toString() });
      break;
    case "Cancelled":
      change(event.idHash, (row) => ({
        ...(event.atPeriodEnd ? { ending: true } : { cancelled: true }),
        version: isProvidersAct(state, row, event.by) ? row.version : Math.min(row.version + 1, LAST_VERSION),
      }));
      tell("subscription.cancelled", event.idHash, { atPeriodEnd: event.atPeriodEnd });
      break;
    case "MaxOverageSet":
      change(event.idHash, (row) => ({ version: row.version + 1 }));
      setAllowance(state, chainId, event.idHash, { cap: event.cap });
      tell("allowance.cap_changed", event.idHash);
      break;
    case "PlanChanged":
      change(event.idHash, (row) => ({
        plan_id: event.newPlanId,
        paid_through: event.paidThroughSec,
        version: row.version + 1,
      }));
      if (event.maxOverage > 0n || wasMade(state.allowances.get(event.idHash))) {
        setAllowance(state, chainId, event.idHash, { cap: event.maxOverage, cycle: event.paidThroughSec });
      }
      tell("subscription.plan_changed", event.idHash, { charged: event.charged.toString() });
      break;
    case "Rekeyed": {
      const row = state.subscriptions.get(event.idHash);
      if (!row) break;
      state.subscriptions.put(event.newIdHash, { ...row, id_hash: event.newIdHash, version: 0 });
      change(event.idHash, () => ({
        cancelled: true,
        moved_to: event.newIdHash,
        version: Math.min(row.version + 1, LAST_VERSION),
      }));
      const allowance = state.allowances.get(event.idHash);
      if (allowance) {
        state.allowances.put(event.newIdHash, { ...allowance, id_hash: event.newIdHash });
        state.allowances.delete(event.idHash);
      }
      tell("subscription.rekeyed", event.newIdHash, { previousIdHash: event.idHash });
      break;
    }
    case "Debited":
      applyDebit(input, state, fact, event, tell);
      break;
    case "RenewalFailed":
    case "DebitFailed":
      // Anyone can make the chain emit these. Only this service's own attempts count, and those emit their own events.
      break;
  }
}

function applyDebit(
  input: BlockInput,
  state: SubscriptionState,
  fact: TurnpikeFact,
  event: Extract<TurnpikeFact["event"], { name: "Debited" }>,
  tell: (type: string, idHash: Hex, more?: Record<string, unknown>) => void,
): void {
  const subscription = state.subscriptions.get(event.idHash);
  const allowance = state.allowances.get(event.idHash);
  if (!subscription || !allowance) return;
  const before = spentIn(allowance, subscription.paid_through);
  const spent = before + event.amount;
  const index = Number(event.index);
  state.allowances.put(event.idHash, {
    ...allowance,
    spent: spent.toString(),
    cycle: subscription.paid_through,
    debits: index + 1,
  });
  state.debits.put(debitKey(event.idHash, index), {
    chain_id: input.chainId,
    id_hash: event.idHash,
    debit_index: index,
    amount: event.amount.toString(),
    transaction: fact.transaction,
    block_number: input.block.number,
    block_time: input.block.timestampSec,
    log_index: fact.logIndex,
  });
  const debit = { amount: event.amount.toString(), index };
  tell("allowance.debited", event.idHash, debit);
  const cap = BigInt(allowance.cap);
  const threshold = (cap * THRESHOLD_PERCENT) / 100n;
  if (before < threshold && spent >= threshold) tell("allowance.threshold_reached", event.idHash, debit);
  if (before < cap && spent >= cap) tell("allowance.exhausted", event.idHash, debit);
}

/** A given `cycle` resets the allowance with nothing spent; without one, the spent amount is kept. */
function setAllowance(
  state: SubscriptionState,
  chainId: number,
  idHash: Hex,
  change: { cap: bigint; cycle?: number },
): void {
  const known = state.allowances.get(idHash);
  if (!known && change.cap === 0n) return;
  const old = known ?? { chain_id: chainId, id_hash: idHash, cap: "0", spent: "0", cycle: 0, debits: 0 };
  state.allowances.put(idHash, {
    ...old,
    cap: change.cap.toString(),
    ...(change.cycle !== undefined && { spent: "0", cycle: change.cycle }),
  });
}

/** Matches the contract: an all-zero word is no allowance. */
function wasMade(allowance: AllowanceRow | undefined): boolean {
  if (!allowance) return false;
  return allowance.cap !== "0" || allowance.spent !== "0" || allowance.cycle !== 0 || allowance.debits !== 0;
}

/** The provider ends a subscription without voiding the subscriber's signatures: the version is unchanged. */
function isProvidersAct(state: SubscriptionState, row: SubscriptionRow, by: string): boolean {
  return by !== row.subscriber && by === state.plans.get(row.plan_id)?.provider;
}

function priceOf(state: SubscriptionState, idHash: string): string | null {
  const subscription = state.subscriptions.get(idHash);
  return (subscription && state.plans.get(subscription.plan_id)?.amount) ?? null;
}

/** Truncates a plan's metadata, which is untrusted text of any length. */
const MAX_METADATA = 16_384;

/** Returns text that the database accepts: no NUL and no unpaired surrogate. */
const storableText = (text: string): string =>
  text
    .slice(0, MAX_METADATA)
    .replaceAll("\0", "\ufffd")
    .replace(/[\ud800-\udbff]$/, "");
