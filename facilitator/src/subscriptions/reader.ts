/** Reads subscriptions and plans from the rows that the indexer committed. */
import type { PlanWire, SubscriptionWire } from "turnpike/facilitator";
import { type Address, type Clock, type Hex, TurnpikeError, Unavailable } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { Indexer } from "../indexer";
import {
  findPlan,
  findSubscription,
  findVoided,
  listPlans,
  listSubscriptions,
  type PlanPage,
  planToWire,
  type SubscriptionRecord,
  subscriptionToWire,
} from "./records";
import type { SubscriptionRow } from "./rows";

export interface SubscriptionReaderOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly indexer: Indexer;
  readonly clock: Clock;
}

export class SubscriptionReader {
  readonly #options: SubscriptionReaderOptions;

  constructor(options: SubscriptionReaderOptions) {
    this.#options = options;
  }

  find(idHash: Hex): Promise<SubscriptionRecord | undefined> {
    const { store, config } = this.#options;
    return findSubscription(store.db, config.chainId, idHash);
  }

  findVoided(idHash: Hex): Promise<SubscriptionRow | undefined> {
    const { store, config } = this.#options;
    return findVoided(store.db, config.chainId, idHash);
  }

  /** @throws UnknownSubscription */
  async require(idHash: Hex): Promise<SubscriptionRecord> {
    const record = await this.find(idHash);
    if (record) return record;
    this.#requireCurrent();
    throw new TurnpikeError("UnknownSubscription", undefined, { details: { idHash } });
  }

  /** @throws UnknownPlan */
  async requirePlan(planId: Hex) {
    const { store, config } = this.#options;
    const plan = await findPlan(store.db, config.chainId, planId);
    if (plan) return plan;
    this.#requireCurrent();
    throw new TurnpikeError("UnknownPlan", undefined, { details: { planId } });
  }

  async get(idHash: Hex): Promise<SubscriptionWire> {
    const { config, clock } = this.#options;
    const voided = await this.findVoided(idHash);
    const record = voided ? { row: voided, plan: undefined, allowance: undefined } : await this.require(idHash);
    return subscriptionToWire(record, config, clock.nowSec());
  }

  /** Returns the subscriptions of one account, newest first. */
  async of(subscriber: Address): Promise<{ readonly subscriptions: SubscriptionWire[]; readonly more: boolean }> {
    const { config, store, clock } = this.#options;
    // Nothing is known of an account whose funds have not been read yet.
    this.#requireCurrent();
    const nowSec = clock.nowSec();
    const { records, more } = await listSubscriptions(store.db, config.chainId, subscriber);
    return { subscriptions: records.map((record) => subscriptionToWire(record, config, nowSec)), more };
  }

  async plan(planId: Hex): Promise<PlanWire> {
    return planToWire(await this.requirePlan(planId), this.#options.config);
  }

  async plans(page: PlanPage): Promise<{ readonly plans: PlanWire[]; readonly next?: number }> {
    const { config, store } = this.#options;
    const rows = await listPlans(store.db, config.chainId, { ...page, limit: page.limit + 1 });
    const shown = rows.slice(0, page.limit);
    const last = rows.length > page.limit ? shown.at(-1)?.plan_index : undefined;
    return { plans: shown.map((row) => planToWire(row, config)), ...(last === undefined ? {} : { next: last }) };
  }

  /** Checks that the indexer is current: while it is behind, an absent row proves nothing. @throws Unavailable */
  #requireCurrent(): void {
    const { config, indexer } = this.#options;
    const { ok, lagSec } = indexer.health();
    if (!ok || lagSec > config.maxLagSec)
      throw new Unavailable("The chain's newest blocks are still being read.", { retryAfterSec: 2 });
  }
}
