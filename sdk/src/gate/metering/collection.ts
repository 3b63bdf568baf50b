/**
 * Whether the debits of each metered plan can be collected at all: proved before the first charge, doubted when the
 * chain or a refused debit contradicts it, and proved again by itself once it was lost. Knows neither HTTP nor keys:
 * `check` asks the chain, and the Facilitator where that one debits.
 */
import { ConfigError, type ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { MeterReport } from "./reports";

/** Why a plan's debits cannot be collected: the setting, the problem and the remedy. */
export interface CollectionFault {
  readonly reason: ErrorCode;
  readonly message: string;
}

export interface CollectionCheck {
  /**
   * @returns one for each plan, in order; undefined where its debits could be collected now
   * @throws Unavailable when nobody can tell
   */
  check(planIds: readonly Hex[]): Promise<readonly (CollectionFault | undefined)[]>;
  /** Whether the key is refused whatever the plan. @throws Unavailable when nobody can tell */
  checkKey(): Promise<CollectionFault | undefined>;
  /** Whether a block with these indexed topics may have changed the answer for the plan. */
  isTouched(planId: Hex, topics: ReadonlySet<string>): boolean;
}

export interface CollectionOptions {
  readonly right: CollectionCheck;
  readonly report: MeterReport;
  /** Tells a loss to whoever reads the process's log. */
  readonly warn: (message: string) => void;
  readonly monotonicMs: () => number;
  /** Told when a plan became collectable again, or ceased to be: whether any of them is. */
  readonly onChange?: (canCollectAny: boolean) => void;
}

/** `doubtful` is served no more than `lost`, until the check has answered. */
type State = "unknown" | "proved" | "doubtful" | "lost";

interface Entry {
  state: State;
  /** the transition that was reported last */
  reported: "proved" | "lost" | undefined;
  fault: CollectionFault | undefined;
  checkedAtMs: number;
  /** counts doubts, so that a check that began before one proves nothing */
  doubts: number;
  checking: Promise<void> | undefined;
}

/** What no event tells (a revoked key, an empty account) is seen after this long at the latest. */
const PROVED_FOR_MS = 30_000;

/** How soon a request may have a loss checked again. */
const LOST_FOR_MS = 1_000;

/** How often a loss is checked again without any request. */
const RETRY_MS = 5_000;

export class Collection {
  private readonly entries = new Map<Hex, Entry>();
  private timer: NodeJS.Timeout | undefined;
  private isClosed = false;

  constructor(private readonly options: CollectionOptions) {}

  /** Whether it was proved of this plan and nothing has contradicted it since. Never waits. */
  isProved(planId: Hex): boolean {
    const entry = this.entries.get(planId);
    if (entry?.state !== "proved") return false;
    // An outage of whoever is asked takes nothing back: only an answer does.
    if (this.options.monotonicMs() - entry.checkedAtMs > PROVED_FOR_MS && entry.checking === undefined) {
      entry.checkedAtMs = this.options.monotonicMs();
      void this.checkAll([planId]).catch(() => undefined);
    }
    return true;
  }

  /** @throws ConfigError that names the setting, the problem and the remedy; Unavailable when nobody can tell */
  async prove(planIds: readonly Hex[]): Promise<void> {
    const open = planIds.filter((planId) => !this.isProved(planId) && !this.isFreshlyLost(planId));
    if (open.length > 0) await this.checkAll(open);
    for (const planId of planIds) {
      const fault = this.entries.get(planId)?.fault;
      if (fault !== undefined) throw new ConfigError(fault.message);
    }
  }

  /** The same of at least one of them: a key that may debit none is of no use. Of none: whether the key is accepted. */
  async proveAny(planIds: readonly Hex[]): Promise<void> {
    if (planIds.some((planId) => this.isProved(planId))) return;
    const { right } = this.options;
    const faults = planIds.length > 0 ? await right.check(planIds) : [await right.checkKey()];
    const [first] = faults;
    if (first !== undefined && !faults.includes(undefined)) throw new ConfigError(first.message);
  }

  /** A debit was refused in a way that contradicts the proof: it is asked for again before anything more is charged. */
  doubt(): void {
    for (const [planId, entry] of this.entries) this.doubtOf(planId, entry);
  }

  /** New blocks. @param topics undefined: any of what was known may have changed */
  onBlocks(topics: ReadonlySet<string> | undefined): void {
    for (const [planId, entry] of this.entries) {
      if (topics === undefined || this.options.right.isTouched(planId, topics)) this.doubtOf(planId, entry);
    }
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
  }

  private doubtOf(planId: Hex, entry: Entry): void {
    entry.doubts += 1;
    if (entry.state === "unknown") return;
    entry.state = "doubtful";
    void this.checkAll([planId]).catch(() => this.retryLater());
  }

  private isFreshlyLost(planId: Hex): boolean {
    const entry = this.entries.get(planId);
    return entry?.state === "lost" && this.options.monotonicMs() - entry.checkedAtMs < LOST_FOR_MS;
  }

  /** Plans that are being checked already are not asked about twice; whoever waits for one waits for its answer. */
  private async checkAll(planIds: readonly Hex[]): Promise<void> {
    const entries = new Map(planIds.map((planId) => [planId, this.entryOf(planId)]));
    const fresh = [...entries].filter(([, { checking }]) => checking === undefined);
    if (fresh.length > 0) {
      const asked = this.check(fresh).finally(() => {
        for (const [, entry] of fresh) entry.checking = undefined;
      });
      for (const [, entry] of fresh) entry.checking = asked;
    }
    await Promise.all([...entries.values()].map(({ checking }) => checking));
    // Doubted meanwhile: what was found out is of before.
    const again = planIds.filter((planId) => ["unknown", "doubtful"].includes(this.entryOf(planId).state));
    if (again.length > 0) await this.checkAll(again);
  }

  private async check(entries: readonly (readonly [Hex, Entry])[]): Promise<void> {
    const before = entries.map(([, { doubts }]) => doubts);
    const faults = await this.options.right.check(entries.map(([planId]) => planId));
    entries.forEach(([planId, entry], i) => {
      if (entry.doubts !== before[i]) return;
      entry.checkedAtMs = this.options.monotonicMs();
      this.settle(planId, entry, faults[i]);
    });
  }

  private settle(planId: Hex, entry: Entry, fault: CollectionFault | undefined): void {
    const { report, warn, onChange } = this.options;
    entry.fault = fault;
    entry.state = fault === undefined ? "proved" : "lost";
    const wasReported = entry.reported;
    entry.reported = entry.state;
    if (fault !== undefined) this.retryLater();
    if (wasReported === entry.state) return;
    onChange?.([...this.entries.values()].some(({ state }) => state !== "lost"));
    if (fault !== undefined) {
      report({ kind: "uncollectable", planId, ...fault });
      // At the start ready() rejects with it; later nobody waits for an answer.
      if (wasReported === "proved") warn(`Metered requests are answered 503: ${fault.message}`);
    } else if (wasReported === "lost") report({ kind: "collectable", planId });
  }

  private retryLater(): void {
    if (this.timer !== undefined || this.isClosed) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      const open = [...this.entries].flatMap(([planId, { state }]) => (state === "proved" ? [] : [planId]));
      if (open.length > 0) void this.checkAll(open).catch(() => this.retryLater());
    }, RETRY_MS);
    this.timer.unref();
  }

  private entryOf(planId: Hex): Entry {
    let entry = this.entries.get(planId);
    if (entry === undefined) {
      entry = {
        state: "unknown",
        reported: undefined,
        fault: undefined,
        checkedAtMs: Number.NEGATIVE_INFINITY,
        doubts: 0,
        checking: undefined,
      };
      this.entries.set(planId, entry);
    }
    return entry;
  }
}
