/**
 * Sends debits one step at a time: follow the batch that is under way, otherwise judge what is due, record it, send it.
 * A crash may interrupt every step, and each is safe to repeat. Only `round` is called, never twice at once (loop.ts).
 */
import type { DebitItem, DebitResult, DebitSender, MeteredState, MeterStates } from "../../chain/debit-sender";
import type { ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { Batch, MeteredAccount } from "./books";
import { isDue, judgeDebit, type MeterLimits, type Now, Retries } from "./schedule";
import type { MeterReport, MeterStore } from "./store";

export interface SettlerOptions {
  readonly store: MeterStore;
  readonly sender: DebitSender;
  readonly states: MeterStates;
  readonly limits: MeterLimits;
  readonly now: () => Now;
  readonly report: MeterReport;
  readonly onRefused: (reason: ErrorCode) => void;
}

const RESUBMIT_MS = 10_000;

/** Reasons to judge again at once: index, cap or status changed, a rekey, or a transaction that was too large. */
const REJUDGED: ReadonlySet<ErrorCode> = new Set([
  "StaleDebit",
  "AllowanceExhausted",
  "SubscriptionNotActive",
  "InsufficientGas",
]);

export class Settler {
  readonly retries: Retries;
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
    return this.retries.forced.size === 0 && this.options.store.batches().length === 0;
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
    for (const [i, item] of batch.items.entries()) {
      const result = outcome.results[i] ?? { kind: "void" };
      if (result.kind === "settled") {
        this.retries.timing(store.account(item.idHash)?.idHash ?? item.idHash).attempts = 0;
        if (wereBlocked.has(item.idHash)) report({ kind: "unblocked", idHash: item.idHash });
        report({ kind: "settled", idHash: item.idHash, amount: item.amount, transaction: outcome.transaction });
      }
      if (result.kind === "failed") this.options.onRefused(result.reason);
      if (result.kind !== "settled") await this.restore(item.idHash, result);
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
    const read = new Map((await states.read(wanted.map(hashOf))).map((state) => [state.idHash, state]));
    const drafts = await this.draft(wanted, read);
    // A reorganisation has reopened an older batch: it goes first.
    if (drafts.length === 0 || store.batches().length > 0) return true;

    const { items, refused, payload } = await sender.prepare(drafts);
    for (const { item, reason } of refused) {
      this.options.onRefused(reason);
      await this.retries.postpone(item.idHash, reason);
    }
    const sealed = drafts.filter((item) => items.some((other) => isSame(other, item)));
    if (sealed.length === 0 || payload === undefined) return refused.length > 0;

    const id = store.nextBatch();
    // On disk before it is on the wire: a crash from here on sends these bytes again, never others.
    const recorded = store.record({ kind: "sealed", batch: id, items: sealed, payloads: [payload] });
    for (const { idHash } of sealed) this.take(idHash);
    await recorded;
    await this.submit({ id, items: sealed, payloads: [payload] });
    return true;
  }

  private take(idHash: Hex): void {
    // What was charged while this was being sealed is still wanted.
    if ((this.options.store.account(idHash)?.pending ?? 0n) === 0n) this.retries.forced.delete(idHash);
    const timing = this.retries.timing(idHash);
    timing.sinceMs = this.options.now().ms;
    timing.closedCycleSec = timing.cycleEndSec;
  }

  private wanted(): Readonly<MeteredAccount>[] {
    const { store, limits, now } = this.options;
    const wanted: Readonly<MeteredAccount>[] = [];
    const at = now();
    for (const idHash of store.urgent()) this.retries.sendRequested(idHash);
    for (const account of store.accounts()) {
      if (wanted.length >= this.maxItems) break;
      const isForced = this.retries.forced.has(account.idHash);
      if (isForced && account.pending === 0n) this.retries.forced.delete(account.idHash);
      if (account.pending === 0n) continue;
      if (isForced || isDue(account, this.retries.timing(account.idHash), limits, at)) wanted.push(account);
    }
    if (wanted.length === 0) this.retries.forced.clear();
    return wanted;
  }

  /** Clips what is owed to what the chain allows now; what can never be debited is written off. */
  private async draft(
    wanted: readonly Readonly<MeteredAccount>[],
    read: ReadonlyMap<Hex, MeteredState>,
  ): Promise<DebitItem[]> {
    const drafts: DebitItem[] = [];
    for (const account of wanted) {
      const { idHash, pending: owed } = account;
      const state = read.get(idHash);
      if (state === undefined) continue;
      const judged = judgeDebit(account, state);
      this.retries.timing(idHash).cycleEndSec = state.paidThroughSec;
      if (judged.kind === "reverted") await this.reopen(idHash, judged.index);
      else if (judged.kind === "ended") await this.end(account);
      else if (judged.kind === "later") await this.setAside(account, state);
      if (judged.kind !== "debit") continue;
      const { index, available } = judged;
      const isShort = owed > available;
      // An endpoint behind the block that the charge was judged by may not know of a cap that was raised since.
      if (isShort && state.blockNumber < account.seenBlock) {
        await this.retries.postpone(idHash, "Unavailable");
        continue;
      }
      if (isShort) await this.writeOff(idHash, owed - available, "clipped");
      const amount = isShort ? available : owed;
      if (amount > 0n) drafts.push({ idHash, amount, index });
    }
    return drafts;
  }

  private async setAside({ idHash, seenBlock }: Readonly<MeteredAccount>, { status }: MeteredState): Promise<void> {
    if (status === "NONE" && (await this.options.states.isRemoved(idHash, seenBlock))) {
      await this.retries.suspend(idHash);
      return;
    }
    // An index behind the books means that the endpoint lags: the state itself does not prevent this debit.
    await this.retries.postpone(idHash, status === "ACTIVE" ? "Unavailable" : "SubscriptionNotActive");
  }

  private async end(account: Readonly<MeteredAccount>): Promise<void> {
    const { store, states, report } = this.options;
    const { idHash } = account;
    const to = await states.rekeyedTo(idHash, account.seenBlock);
    if (to === undefined) return this.writeOff(idHash, account.pending, "cancelled");
    await store.record({ kind: "rekeyed", idHash, to, block: account.seenBlock });
    this.retries.forced.delete(idHash);
    this.retries.forced.add(to);
    report({ kind: "rekeyed", idHash, to });
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
}

const hashOf = ({ idHash }: { readonly idHash: Hex }): Hex => idHash;

const isSame = (a: DebitItem, b: DebitItem): boolean => a.idHash === b.idHash && a.index === b.index;
