/** When debits that failed are tried again, and which accounts are debited before they are due. */
import type { ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type BlockReason, isFundsReason } from "./books";
import type { MeterReport } from "./reports";
import { freshTiming, type Now, retryDelayMs, type Timing } from "./schedule";
import type { MeterStore } from "./store";

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
