/** Decides when a debit is due, how long a failed one waits, and what the chain's current state allows. Pure. */
import type { MeteredState } from "../../chain/debit-sender";
import type { MeteredAccount } from "./books";

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
