/** Decides when a debit is due, how long a failed one waits, and what the chain's current state allows. Pure. */
import type { MeteredState } from "../../chain/debit-sender";
import type { ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type BlockReason, isFundsReason, type MeteredAccount } from "./books";
import type { MeterReport, MeterStore } from "./store";

export interface MeterLimits {
  /** base units a subscription may owe before its debits are final: the most a cancellation can cost; 1,000,000 */
  readonly maxUnsettled: bigint;
  /** base units owed at which a subscription is debited; default half of maxUnsettled */
  readonly settleAmount: bigint;
  /** ... or this long after the first merged call; 60,000 */
  readonly settleAgeMs: number;
  /** ... or after this many merged calls; 10,000 */
  readonly settleCalls: number;
  /** ... or this long before the cycle ends, so that usage is debited in the cycle it belongs to; 60 */
  readonly cycleMarginSec: number;
  /** debits in one transaction; 200 */
  readonly maxItems: number;
  /** how long a call may wait to fit under maxUnsettled; 30,000 */
  readonly waitMs: number;
  /** how often an unresolved transaction is polled; 500 */
  readonly pollMs: number;
  /** after this long without a receipt the fee is raised; 20,000 */
  readonly bumpAfterMs: number;
}

export function limitsOf(given: Partial<MeterLimits> = {}): MeterLimits {
  const maxUnsettled = given.maxUnsettled ?? 1_000_000n;
  return {
    settleAmount: maxUnsettled / 2n,
    settleAgeMs: 60_000,
    settleCalls: 10_000,
    cycleMarginSec: 60,
    maxItems: 200,
    waitMs: 30_000,
    pollMs: 500,
    bumpAfterMs: 20_000,
    ...given,
    maxUnsettled,
  };
}

/** The sender's timing of an account, in memory; a restart begins with a new one. */
export interface Timing {
  /** monotonic; when the oldest pending call came */
  sinceMs: number;
  /** monotonic; not before this after a failure */
  retryAtMs: number;
  /** monotonic; when the last one failed */
  failedAtMs: number;
  /** monotonic; when its subscription was last found not to be active */
  inactiveAtMs: number;
  /** failures in a row */
  attempts: number;
  /** unix seconds; the end of the cycle last seen */
  cycleEndSec: number;
  /** the cycle end before which a last debit of the cycle was sent */
  closedCycleSec: number;
}

export const freshTiming = (nowMs: number): Timing => ({
  sinceMs: nowMs,
  retryAtMs: 0,
  failedAtMs: 0,
  inactiveAtMs: Number.NEGATIVE_INFINITY,
  attempts: 0,
  cycleEndSec: 0,
  closedCycleSec: 0,
});

export interface Now {
  /** monotonic */
  readonly ms: number;
  /** chain time in unix seconds; undefined while the chain cannot be asked */
  readonly sec: number | undefined;
}

export function isDue(account: Readonly<MeteredAccount>, timing: Timing, limits: MeterLimits, now: Now): boolean {
  if (account.pending === 0n || now.ms < timing.retryAtMs) return false;
  if (account.blocked || timing.attempts > 0) return true;
  return (
    account.pending >= limits.settleAmount ||
    account.calls >= limits.settleCalls ||
    now.ms - timing.sinceMs >= limits.settleAgeMs ||
    isCycleEnding(timing, limits, now.sec)
  );
}

/** True once per cycle, from the margin on. */
export function isCycleEnding(timing: Timing, limits: MeterLimits, nowSec: number | undefined): boolean {
  const { cycleEndSec, closedCycleSec } = timing;
  if (nowSec === undefined || cycleEndSec === 0 || closedCycleSec === cycleEndSec) return false;
  return nowSec >= cycleEndSec - limits.cycleMarginSec;
}

/** Judging costs one eth_call and no gas, so the first retries come soon. */
const RETRY_DELAYS_MS = [2_000, 10_000, 30_000, 120_000, 600_000, 1_800_000] as const;

export function retryDelayMs(attempts: number): number {
  return RETRY_DELAYS_MS[Math.min(Math.max(attempts, 1), RETRY_DELAYS_MS.length) - 1] as number;
}

export type Judgement =
  | { readonly kind: "debit"; readonly index: number; readonly available: bigint }
  /** not now: the view is older than the books, or the subscription may become active again */
  | { readonly kind: "later" }
  /** this record never pays again; it may have been rekeyed */
  | { readonly kind: "ended" }
  /** the debit at this index had settled, and a later view does not have it */
  | { readonly kind: "reverted"; readonly index: number };

export function judgeDebit(account: Readonly<MeteredAccount>, state: MeteredState): Judgement {
  if (state.debits < account.nextIndex && state.status !== "CANCELLED") {
    // An endpoint that lags behind the last settled debit would have it debited again under an older index.
    if (state.blockNumber < account.settledBlock) return { kind: "later" };
    return { kind: "reverted", index: state.debits };
  }
  if (state.status === "CANCELLED") return { kind: "ended" };
  if (state.status !== "ACTIVE") return { kind: "later" };
  return { kind: "debit", index: state.debits, available: state.cap > state.spent ? state.cap - state.spent : 0n };
}

export interface RetriesOptions {
  readonly store: MeterStore;
  readonly now: () => Now;
  readonly report: MeterReport;
}

const BLOCKED_RETRY_MS = 2_000;

export class Retries {
  /** accounts that a flush, or a call over the limit, wants debited now */
  readonly forced = new Set<Hex>();
  private readonly timings = new Map<Hex, Timing>();

  constructor(private readonly options: RetriesOptions) {}

  timing(idHash: Hex): Timing {
    let timing = this.timings.get(idHash);
    if (timing === undefined) {
      timing = freshTiming(this.options.now().ms);
      this.timings.set(idHash, timing);
    }
    return timing;
  }

  /** Retries every failed debit at once. */
  retrySoon(): void {
    for (const timing of this.timings.values()) timing.retryAtMs = 0;
  }

  /** Retries a failed debit soon, since the wallet may have been funded. Bounded, however many callers ask. */
  retryBlocked(idHash: Hex): void {
    const account = this.options.store.account(idHash);
    if (account?.blocked === undefined) return;
    this.retryWithinBound(account.idHash);
  }

  /** Retries removed subscriptions that new blocks may have. @returns whether there is any */
  retryRemoved(topics: ReadonlySet<string> | undefined): boolean {
    let isAny = false;
    for (const { idHash, blocked } of this.options.store.accounts()) {
      if (blocked !== "UnknownSubscription" || topics?.has(idHash) === false) continue;
      this.retryWithinBound(idHash);
      isAny = true;
    }
    return isAny;
  }

  private retryWithinBound(idHash: Hex): void {
    const timing = this.timing(idHash);
    timing.retryAtMs = Math.min(timing.retryAtMs, timing.failedAtMs + BLOCKED_RETRY_MS);
  }

  /** Sends a debit that another gate waits for: at once, or soon after it failed. */
  sendRequested(idHash: Hex): void {
    if (this.timing(idHash).attempts === 0) this.forced.add(idHash);
    else this.retryWithinBound(idHash);
  }

  /** Ends the retries of a subscription that a reorganisation has removed, until a block or a request has it again. */
  async suspend(idHash: Hex): Promise<void> {
    await this.delay(idHash, Number.POSITIVE_INFINITY);
    await this.block(idHash, "UnknownSubscription");
  }

  /** Retries an owed debit later; for lack of money the subscription is blocked until then. */
  async postpone(idHash: Hex, reason: ErrorCode): Promise<void> {
    const { store, report } = this.options;
    const account = store.account(idHash);
    if (account === undefined) return;
    await this.delay(account.idHash, retryDelayMs(this.timing(account.idHash).attempts + 1));
    if (reason === "SubscriptionNotActive") this.timing(account.idHash).inactiveAtMs = this.options.now().ms;
    if (isFundsReason(reason)) await this.block(account.idHash, reason);
    else report({ kind: "postponed", idHash: account.idHash, reason });
  }

  /** Notes a failure, after which the debit is not tried for `delayMs`. */
  private async delay(idHash: Hex, delayMs: number): Promise<void> {
    const { store, now } = this.options;
    this.forced.delete(idHash);
    const timing = this.timing(idHash);
    timing.attempts += 1;
    timing.failedAtMs = now().ms;
    timing.retryAtMs = timing.failedAtMs + delayMs;
    await store.endRequest(idHash);
  }

  private async block(idHash: Hex, reason: BlockReason): Promise<void> {
    const { store, report } = this.options;
    if (store.account(idHash)?.blocked === reason) return;
    await store.record({ kind: "blocked", idHash, reason });
    report({ kind: "blocked", idHash, reason });
  }
}
