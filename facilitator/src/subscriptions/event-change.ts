/** Applies one event of the contract: changes the rows in memory and appends the events that this causes. */
import type { Hex } from "turnpike/protocol";
import type { TurnpikeFact } from "../chain/facts";
import { chainEventId, type EventDraft } from "../events/event";
import { type BlockInput, whereOf } from "../events/projection";
import type { SubscriptionState } from "./block-rows";
import { planPayload, subscriptionPayload } from "./payloads";
import type { PlanRow, SubscriptionRow } from "./rows";

export class EventChange {
  readonly input: BlockInput;
  readonly state: SubscriptionState;
  readonly fact: TurnpikeFact;
  readonly #events: EventDraft[];

  constructor(input: BlockInput, state: SubscriptionState, fact: TurnpikeFact, events: EventDraft[]) {
    this.input = input;
    this.state = state;
    this.fact = fact;
    this.#events = events;
  }

  get chainId(): number {
    return this.input.chainId;
  }

  /** Emits an event about one of many subscriptions that a log is about, as it is now. */
  emitOfMany(type: string, idHash: Hex, more: Record<string, unknown>): void {
    this.emit(type, idHash, more, `${type}/${idHash}`);
  }

  emit(type: string, idHash: Hex, more: Record<string, unknown> = {}, name = type): void {
    const { input, state, fact } = this;
    const subscription = state.subscriptions.get(idHash);
    if (!subscription) return;
    const plan = state.plans.get(subscription.plan_id);
    this.#events.push({
      id: chainEventId(input.chainId, input.block.hash, fact.logIndex, name),
      type,
      objectId: idHash,
      provider: plan?.provider,
      payer: subscription.subscriber,
      payload: {
        ...subscriptionPayload(subscription, plan, state.allowances.get(idHash), input.block.timestampSec),
        ...more,
      },
      ...whereOf(input),
      logIndex: fact.logIndex,
      transaction: fact.transaction,
    });
  }

  /**
   * Emits an event about a plan as it is now.
   * @param provider receives it; default: the plan's
   */
  emitOfPlan(type: string, planId: Hex, more: Record<string, unknown> = {}, provider?: string): void {
    const { input, state, fact } = this;
    const plan = state.plans.get(planId);
    if (!plan) return;
    this.#events.push({
      id: chainEventId(input.chainId, input.block.hash, fact.logIndex, provider ? `${type}/${provider}` : type),
      type,
      objectId: planId,
      provider: provider ?? plan.provider,
      payload: { ...planPayload(plan), ...more },
      ...whereOf(input),
      logIndex: fact.logIndex,
      transaction: fact.transaction,
    });
  }

  updatePlan(planId: Hex, next: (row: PlanRow) => Partial<PlanRow>): void {
    const { plans } = this.state;
    const row = plans.get(planId);
    if (row) plans.put(planId, { ...row, ...next(row) });
  }

  update(idHash: Hex, next: (row: SubscriptionRow) => Partial<SubscriptionRow>): void {
    const { subscriptions } = this.state;
    const row = subscriptions.get(idHash);
    if (row) subscriptions.put(idHash, { ...row, ...next(row) });
  }

  /** A given `cycle` resets the allowance with nothing spent; without one, the spent amount is kept. */
  setAllowance(idHash: Hex, change: { cap: bigint; cycle?: number }): void {
    const { allowances } = this.state;
    const known = allowances.get(idHash);
    if (!known && change.cap === 0n) return;
    const old = known ?? { chain_id: this.chainId, id_hash: idHash, cap: "0", spent: "0", cycle: 0, debits: 0 };
    allowances.put(idHash, {
      ...old,
      cap: change.cap.toString(),
      ...(change.cycle !== undefined && { spent: "0", cycle: change.cycle }),
    });
  }
}
