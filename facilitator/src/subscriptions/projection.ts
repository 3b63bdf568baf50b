/** Applies each Turnpike event to plans, subscriptions, allowances and debits, as the contract does. Pure. */

import type { TurnpikeEvent } from "turnpike/chain";
import { type Hex, NO_PLAN } from "turnpike/protocol";
import type { BlockInput, BlockRules } from "../events/projection";
import type { SubscriptionState } from "./block-rows";
import { EventChange } from "./event-change";
import { spentIn } from "./payloads";
import { type AllowanceRow, debitKey, operatorKey, type SubscriptionRow } from "./rows";

/** percent of the cap at which `allowance.threshold_reached` is emitted */
const THRESHOLD_PERCENT = 80n;

const LAST_VERSION = 65_535;

type Handlers = {
  readonly [Name in TurnpikeEvent["name"]]: (
    change: EventChange,
    event: Extract<TurnpikeEvent, { readonly name: Name }>,
  ) => void;
};

/** Anyone can make the chain emit failures. Only this service's own attempts count, and those emit their own events. */
const ignored = (): void => undefined;

/** What a new record has in common with every other. */
const NEW = {
  version: 0,
  paused: false,
  ending: false,
  cancelled: false,
  intro: false,
  anchor_day: 0,
  until: 0,
  next_plan_id: null,
  moved_to: null,
} as const;

const HANDLERS: Handlers = {
  PlanCreated(change, event) {
    const { block } = change.input;
    change.state.plans.put(event.planId, {
      chain_id: change.chainId,
      plan_id: event.planId,
      plan_index: event.index,
      provider: event.provider,
      token: event.terms.token,
      amount: event.terms.amount.toString(),
      interval_sec: event.terms.intervalSec,
      months: event.terms.months,
      grace_sec: event.terms.graceSec,
      pay_to: event.terms.payTo,
      first_provider: null,
      first_pay_to: null,
      proposed_pay_to: null,
      pay_to_effective_at: null,
      salt: event.salt,
      metadata: storableText(event.metadata),
      deprecated: false,
      stopped_at: null,
      successor: null,
      block_number: block.number,
      created_at: block.timestampSec,
    });
    change.emitOfPlan("plan.created", event.planId);
  },

  PlanClosed(change, event) {
    const { plans } = change.state;
    const plan = plans.get(event.planId);
    if (!plan) return;
    const successor = /^0x0+$/.test(event.successor) ? null : event.successor;
    plans.put(event.planId, { ...plan, deprecated: true, successor });
    change.emitOfPlan("plan.deprecated", event.planId);
  },

  PlanEnded(change, { planId }) {
    change.updatePlan(planId, () => ({ stopped_at: change.input.block.timestampSec }));
    change.emitOfPlan("plan.stopped", planId);
    // In one order, whatever was loaded before: a second reading numbers the events alike.
    const rows = [...change.state.subscriptions.all()].sort((a, b) => (a.id_hash < b.id_hash ? -1 : 1));
    for (const row of rows) {
      if (row.plan_id !== planId || row.ending) continue;
      change.update(row.id_hash as Hex, () => ({ ending: true }));
      if (!row.cancelled) change.emitOfMany("subscription.cancelled", row.id_hash as Hex, { atPeriodEnd: true });
    }
  },

  OperatorSet(change, event) {
    change.state.operators.put(operatorKey(event.planId, event.account), {
      chain_id: change.chainId,
      plan_id: event.planId,
      operator: event.account,
      rights: event.rights,
    });
  },

  PayToProposed(change, { planId, payTo, effectiveAtSec, by }) {
    change.updatePlan(planId, () => ({
      proposed_pay_to: payTo ?? null,
      pay_to_effective_at: payTo ? effectiveAtSec : null,
    }));
    change.emitOfPlan("plan.payee_proposed", planId, { by });
  },

  PayToMoved(change, { planId, payTo }) {
    const previousPayTo = change.state.plans.get(planId)?.pay_to;
    change.updatePlan(planId, (plan) => ({
      pay_to: payTo,
      first_pay_to: plan.first_pay_to ?? plan.pay_to,
      proposed_pay_to: null,
      pay_to_effective_at: null,
    }));
    change.emitOfPlan("plan.payee_changed", planId, { previousPayTo });
  },

  /** Nothing changes until the next provider accepts. */
  PlanOffered: ignored,

  PlanTransferred(change, { planId, provider }) {
    const previousProvider = change.state.plans.get(planId)?.provider;
    change.updatePlan(planId, (plan) => ({ provider, first_provider: plan.first_provider ?? plan.provider }));
    // Both need to learn of it: the one before may not have wanted it.
    if (previousProvider !== provider) {
      change.emitOfPlan("plan.transferred", planId, { previousProvider }, previousProvider);
    }
    change.emitOfPlan("plan.transferred", planId, { previousProvider });
  },

  /** Precedes the signup's own event. */
  VoucherUsed(change, event) {
    change.state.vouchers.set(event.idHash, event.firstAmount);
  },

  Voided(change, event) {
    const { block } = change.input;
    change.state.subscriptions.put(event.idHash, {
      ...NEW,
      chain_id: change.chainId,
      id_hash: event.idHash,
      subscriber: event.subscriber,
      plan_id: NO_PLAN,
      paid_through: 0,
      cancelled: true,
      block_number: block.number,
      created_at: block.timestampSec,
      transaction: change.fact.transaction,
    });
  },

  Subscribed(change, event) {
    const { block } = change.input;
    const { ends, vouchers } = change.state;
    const firstAmount = vouchers.get(event.idHash);
    const until = ends.get(event.idHash) ?? 0;
    vouchers.delete(event.idHash);
    ends.delete(event.idHash);
    change.state.subscriptions.put(event.idHash, {
      ...NEW,
      chain_id: change.chainId,
      id_hash: event.idHash,
      subscriber: event.subscriber,
      plan_id: event.planId,
      paid_through: event.paidThroughSec,
      intro: firstAmount !== undefined,
      until,
      block_number: block.number,
      created_at: block.timestampSec,
      transaction: change.fact.transaction,
    });
    if (event.maxOverage > 0n)
      change.setAllowance(event.idHash, { cap: event.maxOverage, cycle: event.paidThroughSec });
    change.emit("subscription.created", event.idHash, {
      charged: firstAmount?.toString() ?? change.state.plans.get(event.planId)?.amount ?? null,
    });
  },

  Anchored(change, event) {
    change.update(event.idHash, () => ({ anchor_day: event.day }));
  },

  NextSet(change, event) {
    // A signup with an end emits it before the record exists, and is no act of its own.
    if (!change.state.subscriptions.get(event.idHash)) {
      change.state.ends.set(event.idHash, event.untilSec);
      return;
    }
    change.update(event.idHash, (row) => ({
      until: event.untilSec,
      next_plan_id: event.nextPlanId ?? null,
      version: row.version + 1,
    }));
    change.emit("subscription.next_set", event.idHash);
  },

  /** Precedes the event of the charge. */
  ChangeMade(change, event) {
    change.update(event.idHash, () => ({ plan_id: event.newPlanId, next_plan_id: null }));
  },

  Renewed(change, event) {
    const converted = conversionOf(change.state, event.idHash);
    change.update(event.idHash, () => ({ paid_through: event.paidThroughSec, intro: false }));
    change.emit("subscription.renewed", event.idHash, { charged: priceOf(change.state, event.idHash), ...converted });
  },

  Paused(change, event) {
    change.update(event.idHash, (row) => ({ paused: true, version: row.version + 1 }));
    change.emit("subscription.paused", event.idHash);
  },

  Resumed(change, event) {
    const converted = event.charged > 0n ? conversionOf(change.state, event.idHash) : {};
    change.update(event.idHash, (row) => ({
      paused: false,
      ...(event.charged > 0n && { intro: false }),
      paid_through: event.paidThroughSec,
      version: row.version + 1,
    }));
    change.emit("subscription.resumed", event.idHash, { charged: event.charged.toString(), ...converted });
  },

  Cancelled(change, event) {
    change.update(event.idHash, (row) => ({
      ...(event.atPeriodEnd ? { ending: true } : { cancelled: true }),
      next_plan_id: null,
      version: isProvidersAct(change.state, row, event.by) ? row.version : Math.min(row.version + 1, LAST_VERSION),
    }));
    change.emit("subscription.cancelled", event.idHash, { atPeriodEnd: event.atPeriodEnd });
  },

  MaxOverageSet(change, event) {
    change.update(event.idHash, (row) => ({ version: row.version + 1 }));
    change.setAllowance(event.idHash, { cap: event.cap });
    change.emit("allowance.cap_changed", event.idHash);
  },

  PlanChanged(change, event) {
    const converted = conversionOf(change.state, event.idHash);
    change.update(event.idHash, (row) => ({
      plan_id: event.newPlanId,
      next_plan_id: null,
      ending: false, // of a plan that was stopped
      intro: false,
      paid_through: event.paidThroughSec,
      version: row.version + 1,
    }));
    if (event.maxOverage > 0n || wasMade(change.state.allowances.get(event.idHash))) {
      change.setAllowance(event.idHash, { cap: event.maxOverage, cycle: event.paidThroughSec });
    }
    change.emit("subscription.plan_changed", event.idHash, { charged: event.charged.toString(), ...converted });
  },

  Rekeyed(change, event) {
    const { subscriptions, allowances } = change.state;
    const row = subscriptions.get(event.idHash);
    if (!row) return;
    subscriptions.put(event.newIdHash, { ...row, id_hash: event.newIdHash, version: 0 });
    change.update(event.idHash, () => ({
      cancelled: true,
      until: 0,
      next_plan_id: null,
      moved_to: event.newIdHash,
      version: Math.min(row.version + 1, LAST_VERSION),
    }));
    const allowance = allowances.get(event.idHash);
    if (allowance) {
      allowances.put(event.newIdHash, { ...allowance, id_hash: event.newIdHash });
      allowances.delete(event.idHash);
    }
    change.emit("subscription.rekeyed", event.newIdHash, { previousIdHash: event.idHash });
  },

  Debited(change, event) {
    const { input, state, fact } = change;
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
    change.emit("allowance.debited", event.idHash, debit);
    const cap = BigInt(allowance.cap);
    const threshold = (cap * THRESHOLD_PERCENT) / 100n;
    if (before < threshold && spent >= threshold) change.emit("allowance.threshold_reached", event.idHash, debit);
    if (before < cap && spent >= cap) change.emit("allowance.exhausted", event.idHash, debit);
  },

  RenewalFailed: ignored,
  DebitFailed: ignored,
};

export const turnpikeRules = (input: BlockInput, state: SubscriptionState): BlockRules => ({
  apply(fact, events) {
    if (fact.kind === "turnpike") handle(new EventChange(input, state, fact, events), fact.event);
  },
});

function handle<Event extends TurnpikeEvent>(change: EventChange, event: Event): void {
  const handler = HANDLERS[event.name] as (change: EventChange, event: Event) => void;
  handler(change, event);
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

/** Marks the first charge at a plan's price after a period that was begun with a voucher. */
const conversionOf = (state: SubscriptionState, idHash: string): { readonly converted?: true } =>
  state.subscriptions.get(idHash)?.intro ? { converted: true } : {};

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
