/**
 * Tracks whether the debits of each metered plan can be collected: proves it before the first charge, checks again when
 * the chain or a refused debit contradicts it, and retries after a loss. Knows neither HTTP nor keys: `check` asks the
 * chain, and the Facilitator where that one debits.
 */
import { ConfigError, type ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { MeterReport } from "./store";

/** Why a plan's debits cannot be collected: the setting, the problem and the remedy. */
export interface CollectionFault {
  readonly reason: ErrorCode;
  readonly message: string;
}

export interface CollectionCheck {
  /**
   * @returns one for each plan, in order; undefined where its debits could be collected now
   * @throws Unavailable when the answer is unknown
   */
  check(planIds: readonly Hex[]): Promise<readonly (CollectionFault | undefined)[]>;
  /** Returns why the key is refused for every plan, if it is. @throws Unavailable when the answer is unknown */
  checkKey(): Promise<CollectionFault | undefined>;
  /** Returns whether a block with these indexed topics may have changed the answer for the plan. */
  isTouched(planId: Hex, topics: ReadonlySet<string>): boolean;
}

export interface CollectionOptions {
  readonly right: CollectionCheck;
  readonly report: MeterReport;
  /** Writes a loss to the process's log. */
  readonly warn: (message: string) => void;
  readonly monotonicMs: () => number;
  /** Called when a plan becomes collectable or ceases to be, with whether any plan is. */
  readonly onChange?: (canCollectAny: boolean) => void;
}

/** `doubtful` is served no more than `lost`, until the check has answered. */
type CollectionState = "unknown" | "proved" | "doubtful" | "lost";

interface TrackedPlan {
  state: CollectionState;
  /** the transition that was reported last */
  reported: "proved" | "lost" | undefined;
  fault: CollectionFault | undefined;
  checkedAtMs: number;
  /** counts doubts, so that a check that began before one proves nothing */
  doubts: number;
  checking: Promise<void> | undefined;
}

/** The longest time before a change without an event (a revoked key, an empty account) is noticed. */
const PROVED_FOR_MS = 30_000;

/** How soon a request may have a loss checked again. */
const LOST_FOR_MS = 1_000;

/** How often a loss is checked again without any request. */
const RETRY_MS = 5_000;

export class Collection {
  private readonly plans = new Map<Hex, TrackedPlan>();
  private timer: NodeJS.Timeout | undefined;
  private isClosed = false;

  constructor(private readonly options: CollectionOptions) {}

  /** Returns whether this plan was proved collectable and nothing has contradicted it since. Never waits. */
  isProved(planId: Hex): boolean {
    const tracked = this.plans.get(planId);
    if (tracked?.state !== "proved") return false;
    // An outage of the chain or the Facilitator revokes nothing: only an answer does.
    if (this.options.monotonicMs() - tracked.checkedAtMs > PROVED_FOR_MS && tracked.checking === undefined) {
      tracked.checkedAtMs = this.options.monotonicMs();
      void this.checkAll([planId]).catch(() => undefined);
    }
    return true;
  }

  /** @throws ConfigError that names the setting, the problem and the remedy; Unavailable when the answer is unknown */
  async prove(planIds: readonly Hex[]): Promise<void> {
    const open = planIds.filter((planId) => !this.isProved(planId) && !this.isFreshlyLost(planId));
    if (open.length > 0) await this.checkAll(open);
    for (const planId of planIds) {
      const fault = this.plans.get(planId)?.fault;
      if (fault !== undefined) throw new ConfigError(fault.message);
    }
  }

  /** Proves that at least one of these plans is collectable; for an empty list, that the key is accepted. */
  async proveAny(planIds: readonly Hex[]): Promise<void> {
    if (planIds.some((planId) => this.isProved(planId))) return;
    const { right } = this.options;
    const faults = planIds.length > 0 ? await right.check(planIds) : [await right.checkKey()];
    const [first] = faults;
    if (first !== undefined && !faults.includes(undefined)) throw new ConfigError(first.message);
  }

  /** Checks every plan again before anything more is charged, since a refused debit contradicts the proof. */
  doubt(): void {
    for (const [planId, tracked] of this.plans) this.doubtOf(planId, tracked);
  }

  /** Checks the plans again that new blocks may affect. @param topics undefined: all of them */
  onBlocks(topics: ReadonlySet<string> | undefined): void {
    for (const [planId, tracked] of this.plans) {
      if (topics === undefined || this.options.right.isTouched(planId, topics)) this.doubtOf(planId, tracked);
    }
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
  }

  private doubtOf(planId: Hex, tracked: TrackedPlan): void {
    tracked.doubts += 1;
    if (tracked.state === "unknown") return;
    tracked.state = "doubtful";
    void this.checkAll([planId]).catch(() => this.retryLater());
  }

  private isFreshlyLost(planId: Hex): boolean {
    const tracked = this.plans.get(planId);
    return tracked?.state === "lost" && this.options.monotonicMs() - tracked.checkedAtMs < LOST_FOR_MS;
  }

  /** Checks plans; one that is already being checked is not checked twice, and callers share the answer. */
  private async checkAll(planIds: readonly Hex[]): Promise<void> {
    const plans = new Map(planIds.map((planId) => [planId, this.planOf(planId)]));
    const fresh = [...plans].filter(([, { checking }]) => checking === undefined);
    if (fresh.length > 0) {
      const asked = this.check(fresh).finally(() => {
        for (const [, tracked] of fresh) tracked.checking = undefined;
      });
      for (const [, tracked] of fresh) tracked.checking = asked;
    }
    await Promise.all([...plans.values()].map(({ checking }) => checking));
    // Doubted meanwhile: the answer is out of date.
    const again = planIds.filter((planId) => ["unknown", "doubtful"].includes(this.planOf(planId).state));
    if (again.length > 0) await this.checkAll(again);
  }

  private async check(plans: readonly (readonly [Hex, TrackedPlan])[]): Promise<void> {
    const before = plans.map(([, { doubts }]) => doubts);
    const faults = await this.options.right.check(plans.map(([planId]) => planId));
    plans.forEach(([planId, tracked], i) => {
      if (tracked.doubts !== before[i]) return;
      tracked.checkedAtMs = this.options.monotonicMs();
      this.settle(planId, tracked, faults[i]);
    });
  }

  private settle(planId: Hex, tracked: TrackedPlan, fault: CollectionFault | undefined): void {
    const { report, warn, onChange } = this.options;
    tracked.fault = fault;
    tracked.state = fault === undefined ? "proved" : "lost";
    const wasReported = tracked.reported;
    tracked.reported = tracked.state;
    if (fault !== undefined) this.retryLater();
    if (wasReported === tracked.state) return;
    onChange?.([...this.plans.values()].some(({ state }) => state !== "lost"));
    if (fault !== undefined) {
      report({ kind: "uncollectable", planId, ...fault });
      // At the start ready() rejects with it; later no caller waits for the answer.
      if (wasReported === "proved") warn(`Metered requests are answered 503: ${fault.message}`);
    } else if (wasReported === "lost") report({ kind: "collectable", planId });
  }

  private retryLater(): void {
    if (this.timer !== undefined || this.isClosed) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      const open = [...this.plans].flatMap(([planId, { state }]) => (state === "proved" ? [] : [planId]));
      if (open.length > 0) void this.checkAll(open).catch(() => this.retryLater());
    }, RETRY_MS);
    this.timer.unref();
  }

  private planOf(planId: Hex): TrackedPlan {
    let tracked = this.plans.get(planId);
    if (tracked === undefined) {
      tracked = {
        state: "unknown",
        reported: undefined,
        fault: undefined,
        checkedAtMs: Number.NEGATIVE_INFINITY,
        doubts: 0,
        checking: undefined,
      };
      this.plans.set(planId, tracked);
    }
    return tracked;
  }
}
