/** Reads subscriptions and plans from the rows that the indexer committed. */
import type { PlanWire, SubscriptionListWire, SubscriptionWire } from "turnpike/facilitator";
import { type Address, type Clock, type Hex, TurnpikeError, Unavailable } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { Indexer } from "../indexer";
import { coalesce } from "../lib/coalesce";
import {
  findPlan,
  findSubscription,
  findVoided,
  listPlans,
  listSubscriptions,
  type PlanPage,
  planToWire,
  type SubscriptionPage,
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

/** Milliseconds between two looks at the chain for absent rows: asking for what does not exist costs no more. */
const LOOK_AFTER_MS = 250;

export class SubscriptionReader {
  readonly #options: SubscriptionReaderOptions;
  /** Reads the blocks that the chain has now, once for all that ask before it starts. */
  readonly #look: (question: undefined) => Promise<void>;

  constructor(options: SubscriptionReaderOptions) {
    this.#options = options;
    this.#look = coalesce<undefined, void>({
      maxItems: Number.POSITIVE_INFINITY,
      maxParallel: Number.POSITIVE_INFINITY,
      gatherMs: () => LOOK_AFTER_MS,
      async run(batch) {
        await options.indexer.catchUp();
        return batch.map(() => undefined);
      },
    });
  }

  find(idHash: Hex): Promise<SubscriptionRecord | undefined> {
    const { store, config } = this.#options;
    return findSubscription(store.db, config.chainId, idHash);
  }

  findVoided(idHash: Hex): Promise<SubscriptionRow | undefined> {
    const { store, config } = this.#options;
    return findVoided(store.db, config.chainId, idHash);
  }

  async require(idHash: Hex): Promise<SubscriptionRecord> {
    const record = (await this.find(idHash)) ?? (await this.#afterLook(() => this.find(idHash)));
    if (record) return record;
    throw new TurnpikeError("UnknownSubscription", undefined, { details: { idHash } });
  }

  async requirePlan(planId: Hex) {
    const { store, config } = this.#options;
    const read = () => findPlan(store.db, config.chainId, planId);
    const plan = (await read()) ?? (await this.#afterLook(read));
    if (plan) return plan;
    throw new TurnpikeError("UnknownPlan", undefined, { details: { planId } });
  }

  async get(idHash: Hex): Promise<SubscriptionWire> {
    const { config, clock } = this.#options;
    const voided = await this.findVoided(idHash);
    const record = voided ? { row: voided, plan: undefined, allowance: undefined } : await this.require(idHash);
    return subscriptionToWire(record, config, clock.nowSec());
  }

  async of(subscriber: Address, page: SubscriptionPage): Promise<SubscriptionListWire> {
    const { config, store, clock } = this.#options;
    // Nothing is known of an account whose funds have not been read yet.
    this.#requireCurrent();
    const nowSec = clock.nowSec();
    const { records, next } = await listSubscriptions(store.db, config.chainId, subscriber, page);
    const subscriptions = records.map((record) => subscriptionToWire(record, config, nowSec));
    return { subscriptions, more: next !== undefined, ...(next !== undefined && { next }) };
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

  /** Reads again after the blocks that the chain has now: an absent row proves nothing before. @throws Unavailable */
  async #afterLook<T>(read: () => Promise<T>): Promise<T> {
    this.#requireCurrent();
    await this.#look(undefined);
    const found = await read();
    if (found === undefined) this.#requireCurrent();
    return found;
  }

  /** Checks that the indexer is current: while it is behind, an absent row proves nothing. @throws Unavailable */
  #requireCurrent(): void {
    const { config, indexer } = this.#options;
    const { ok, lagSec } = indexer.health();
    if (!ok || lagSec > config.maxLagSec)
      throw new Unavailable("The chain's newest blocks are still being read.", { retryAfterSec: 2 });
  }
}
