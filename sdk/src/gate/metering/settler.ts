/**
 * Sends debits one step at a time: follow the batch that is under way, otherwise judge what is due, record it, send it.
 * A crash may interrupt every step, and each is safe to repeat. Only `round` is called, never twice at once (loop.ts).
 */
import type { DebitItem, DebitResult, DebitSender, MeteredState, MeterStates } from "../../chain/debit-sender";
import type { ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { Batch, BatchItem, MeteredAccount } from "./books";
import type { MeterReport } from "./reports";
import { Retries } from "./retries";
import { isDue, judgeDebit, type MeterLimits, type Now } from "./schedule";
import type { MeterStore } from "./store";

/** A call that waits for its own debit. */
export interface Call {
  readonly idHash: Hex;
  readonly amount: bigint;
  /** the block of the facts that it was held by */
  readonly block: number;
  sealed: boolean;
  readonly settle: (result: DebitResult) => void;
}

export interface SettlerOptions {
  readonly store: MeterStore;
  readonly sender: DebitSender;
  readonly states: MeterStates;
  readonly limits: MeterLimits;
  readonly now: () => Now;
  readonly report: MeterReport;
  readonly onRefused: (reason: ErrorCode) => void;
}

interface Draft {
  readonly item: BatchItem;
  readonly call: Call | undefined;
}

/** Something to debit, before the chain was asked. */
type Wanted = { readonly account: Readonly<MeteredAccount>; readonly call?: Call };

const RESUBMIT_MS = 10_000;

/** Reasons to judge again at once: index, cap or status changed, a rekey, or a transaction that was too large. */
const REJUDGED: ReadonlySet<ErrorCode> = new Set([
  "StaleDebit",
  "AllowanceExhausted",
  "SubscriptionNotActive",
  "InsufficientGas",
]);

export class Settler {
  /** calls with a debit of their own, oldest first */
  readonly calls = new Set<Call>();
  readonly retries: Retries;
  /** of the batch under way, in the order of its items; empty after a restart */
  private waiting: (Call | undefined)[] = [];
  private sent: { batch: number; submittedAtMs: number; payloadAtMs: number } | undefined;
  private maxItems: number;

  constructor(private readonly options: SettlerOptions) {
    this.retries = new Retries(options);
    this.maxItems = options.limits.maxItems;
  }

  /** One step. @returns whether the books changed */
  async round(): Promise<boolean> {
    const batch = this.options.store.batches()[0];
    return batch === undefined ? this.seal() : this.follow(batch);
  }

  get isIdle(): boolean {
    return this.calls.size === 0 && this.retries.forced.size === 0 && this.options.store.batches().length === 0;
  }

  // ---------------------------------------------------------------- follow

  private async follow(batch: Batch): Promise<boolean> {
    const { sender, store, report } = this.options;
    if (this.sent?.batch !== batch.id) await this.submit(batch);
    const outcome = await sender.outcome(batch.items, batch.payloads);
    if (outcome.kind === "pending") {
      await this.nudge(batch);
      return false;
    }
    const wereBlocked = new Set(batch.items.filter(({ idHash }) => store.account(idHash)?.blocked).map(hashOf));
    const { results, blockNumber: block = 0 } = outcome;
    await store.record({ kind: "resolved", batch: batch.id, results, block });
    const waiting = this.waiting;
    this.waiting = [];
    for (const [i, item] of batch.items.entries()) {
      const result = outcome.results[i] ?? { kind: "void" };
      if (result.kind === "settled") {
        this.retries.timing(store.account(item.idHash)?.idHash ?? item.idHash).attempts = 0;
        if (wereBlocked.has(item.idHash)) report({ kind: "unblocked", idHash: item.idHash });
        report({ kind: "settled", idHash: item.idHash, amount: item.amount, transaction: outcome.transaction });
      }
      if (result.kind === "failed") this.options.onRefused(result.reason);
      const call = waiting[i];
      if (call !== undefined) call.settle(result);
      else if (item.origin === "merged" && result.kind !== "settled") await this.restore(item.idHash, result);
    }
    const starved = outcome.results.some((result) => result.kind === "failed" && result.reason === "InsufficientGas");
    if (starved) this.maxItems = Math.max(1, Math.floor(batch.items.length / 2));
    else this.maxItems = Math.min(this.options.limits.maxItems, this.maxItems * 2);
    return true;
  }

  private async nudge(batch: Batch): Promise<void> {
    const { sender, store, limits, now } = this.options;
    const sent = this.sent;
    if (sent === undefined) return;
    if (now().ms - sent.payloadAtMs >= limits.bumpAfterMs) {
      sent.payloadAtMs = now().ms;
      const payload = await sender.replace(batch.payloads);
      if (payload !== undefined) {
        await store.record({ kind: "replaced", batch: batch.id, payload });
        await this.submit({ ...batch, payloads: [...batch.payloads, payload] });
      }
    } else if (now().ms - sent.submittedAtMs >= RESUBMIT_MS) {
      await this.submit(batch);
    }
  }

  /**
   * Broadcasts a batch. Its outcome decides, not the node's answer: a failure is reported, and the batch still
   * followed.
   * @throws Unavailable while a replica of the store does not have the batch: taking its place, it would debit it again
   */
  private async submit(batch: Batch): Promise<void> {
    const { sender, store, report, now } = this.options;
    await store.replicated?.();
    const payloadAtMs = this.sent?.batch === batch.id ? this.sent.payloadAtMs : now().ms;
    this.sent = { batch: batch.id, submittedAtMs: now().ms, payloadAtMs };
    try {
      await sender.submit(batch.payloads);
    } catch (error) {
      report({ kind: "trouble", error });
    }
  }

  /**
   * Handles an item that was not debited and is owed again: judged again at once where a new read of the chain can
   * help.
   */
  private async restore(idHash: Hex, result: Exclude<DebitResult, { kind: "settled" }>): Promise<void> {
    const account = this.options.store.account(idHash);
    if (account === undefined) return;
    if (result.kind === "void" || REJUDGED.has(result.reason)) this.retries.forced.add(account.idHash);
    else await this.retries.postpone(idHash, result.reason);
  }

  // ---------------------------------------------------------------- seal

  private async seal(): Promise<boolean> {
    const { store, sender, states } = this.options;
    const wanted = this.wanted();
    if (wanted.length === 0) return false;
    const idHashes = [...new Set(wanted.map(({ account }) => account.idHash))];
    const read = new Map((await states.read(idHashes)).map((state) => [state.idHash, state]));
    const drafts = await this.draft(wanted, read);
    // A reorganisation has reopened an older batch: it goes first.
    if (drafts.length === 0 || store.batches().length > 0) return true;

    const { items, refused, payload } = await sender.prepare(drafts.map(({ item }) => item));
    for (const { item, reason } of refused) {
      const draft = drafts.find((other) => isSame(other.item, item));
      if (draft !== undefined) await this.refuse(draft, reason);
    }
    const accepted = drafts.filter(({ item }) => items.some((other) => isSame(other, item)));
    if (accepted.length === 0 || payload === undefined) return refused.length > 0;

    const id = store.nextBatch();
    const sealed = accepted.map(({ item }) => item);
    // On disk before it is on the wire: a crash from here on sends these bytes again, never others.
    const recorded = store.record({ kind: "sealed", batch: id, items: sealed, payloads: [payload] });
    this.waiting = accepted.map(({ call }) => call);
    for (const { item, call } of accepted) this.take(item, call);
    await recorded;
    await this.submit({ id, items: sealed, payloads: [payload] });
    return true;
  }

  private take(item: BatchItem, call: Call | undefined): void {
    // What was charged while this was being sealed is still wanted.
    if ((this.options.store.account(item.idHash)?.pending ?? 0n) === 0n) this.retries.forced.delete(item.idHash);
    const timing = this.retries.timing(item.idHash);
    timing.sinceMs = this.options.now().ms;
    timing.closedCycleSec = timing.cycleEndSec;
    if (call === undefined) return;
    call.sealed = true;
    this.calls.delete(call);
    this.options.store.release(call.idHash, call.amount);
  }

  private wanted(): Wanted[] {
    const { store, limits, now } = this.options;
    const wanted: Wanted[] = [];
    for (const call of this.calls) {
      const account = store.account(call.idHash);
      if (account !== undefined && wanted.length < this.maxItems) wanted.push({ account, call });
    }
    const at = now();
    for (const idHash of store.urgent()) this.retries.sendRequested(idHash);
    for (const account of store.accounts()) {
      if (wanted.length >= this.maxItems) break;
      const isForced = this.retries.forced.has(account.idHash);
      if (isForced && account.pending === 0n) this.retries.forced.delete(account.idHash);
      if (account.pending === 0n) continue;
      if (isForced || isDue(account, this.retries.timing(account.idHash), limits, at)) wanted.push({ account });
    }
    if (wanted.length === 0) this.retries.forced.clear();
    return wanted;
  }

  /** Clips what is wanted to what the chain allows now; what can never be debited is written off. */
  private async draft(wanted: readonly Wanted[], read: ReadonlyMap<Hex, MeteredState>): Promise<Draft[]> {
    const drafts: Draft[] = [];
    const used = new Map<Hex, { amount: bigint; count: number }>();
    for (const { account, call } of wanted) {
      const { idHash } = account;
      const state = read.get(idHash);
      if (state === undefined) continue;
      const judged = judgeDebit(account, state);
      this.retries.timing(idHash).cycleEndSec = state.paidThroughSec;
      if (judged.kind === "reverted") await this.reopen(idHash, judged.index);
      else if (judged.kind === "ended") await this.end({ account, call });
      else if (judged.kind === "later") await this.setAside({ account, call, state });
      if (judged.kind !== "debit") continue;
      const before = used.get(idHash) ?? { amount: 0n, count: 0 };
      const available = judged.available - before.amount;
      const owed = call?.amount ?? account.pending;
      const isShort = owed > available;
      // An endpoint behind the block that the charge was judged by may not know of a cap that was raised since.
      if (isShort && state.blockNumber < (call?.block ?? account.seenBlock)) {
        if (call === undefined) await this.retries.postpone(idHash, "Unavailable");
        continue;
      }
      const amount = isShort ? available : owed;
      if (call === undefined && isShort) await this.writeOff(idHash, owed - amount, "clipped");
      if (call !== undefined && isShort) {
        this.fail(call, "AllowanceExhausted");
        continue;
      }
      if (amount === 0n) continue;
      used.set(idHash, { amount: before.amount + amount, count: before.count + 1 });
      const origin = call === undefined ? "merged" : "call";
      drafts.push({ call, item: { idHash, amount, index: judged.index + before.count, origin } });
    }
    return drafts;
  }

  private async setAside({ account, call, state }: Wanted & { readonly state: MeteredState }): Promise<void> {
    // An index behind the books means that the endpoint lags: the state itself does not prevent this debit.
    const isLagging = state.status === "ACTIVE";
    if (call !== undefined) {
      if (!isLagging) this.fail(call, "SubscriptionNotActive");
    } else if (state.status === "NONE" && (await this.options.states.isRemoved(account.idHash, account.seenBlock))) {
      await this.retries.suspend(account.idHash);
    } else await this.retries.postpone(account.idHash, isLagging ? "Unavailable" : "SubscriptionNotActive");
  }

  private async end({ account, call }: Wanted): Promise<void> {
    const { store, states, report } = this.options;
    const { idHash } = account;
    const to = await states.rekeyedTo(idHash, account.seenBlock);
    if (to !== undefined) {
      await store.record({ kind: "rekeyed", idHash, to, block: account.seenBlock });
      this.retries.forced.delete(idHash);
      this.retries.forced.add(to);
      report({ kind: "rekeyed", idHash, to });
    } else if (call !== undefined) this.fail(call, "SubscriptionNotActive");
    else await this.writeOff(idHash, account.pending, "cancelled");
  }

  /** Sends a reverted batch again with the same bytes: wherever they are still pending, they settle only once. */
  private async reopen(idHash: Hex, index: number): Promise<void> {
    const { store, report } = this.options;
    const isThis = (item: DebitItem) => item.index === index && store.account(item.idHash)?.idHash === idHash;
    const batch = store.recent().find(({ items }) => items.some(isThis));
    if (batch !== undefined && store.batches().length === 0) {
      await store.record({ kind: "reopened", batch: batch.id });
      this.sent = undefined;
      report({ kind: "reorganised", batch: batch.id });
    }
    await this.retries.postpone(idHash, "Unavailable");
  }

  private async writeOff(idHash: Hex, amount: bigint, reason: "clipped" | "cancelled"): Promise<void> {
    await this.options.store.record({ kind: "lost", idHash, amount, reason });
    this.options.report({ kind: "lost", idHash, amount, reason });
  }

  private async refuse({ item, call }: Draft, reason: ErrorCode): Promise<void> {
    this.options.onRefused(reason);
    if (call === undefined) return this.retries.postpone(item.idHash, reason);
    // A stale index is the sender's own view, not the caller's fault: the call stays queued.
    if (reason !== "StaleDebit") this.fail(call, reason);
  }

  private fail(call: Call, reason: ErrorCode): void {
    this.calls.delete(call);
    this.options.store.release(call.idHash, call.amount);
    call.settle({ kind: "failed", reason });
  }
}

const hashOf = ({ idHash }: DebitItem): Hex => idHash;

const isSame = (a: DebitItem, b: DebitItem): boolean => a.idHash === b.idHash && a.index === b.index;
