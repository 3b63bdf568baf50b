/**
 * Keeps a meter's accounts: what each subscription owes, what is being debited, what was lost. `apply` makes every
 * change. Pure and synchronous: the same entries in the same order give the same books. Knows no clock, file or
 * chain.
 */
import type { AllowanceFacts, DebitItem, DebitResult } from "../../chain/debit-sender";
import { type ErrorCode, TurnpikeError } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { ReceiptCount } from "./receipt-count";

export type LossReason = "cancelled" | "clipped";

/** `UnknownSubscription`: a reorganisation has removed the signup, and the chain's finalised blocks have none. */
export type BlockReason = FundsReason | "UnknownSubscription";

type FundsReason = "InsufficientFunds" | "InsufficientApproval";

/** Debits under way. */
export interface Batch {
  readonly id: number;
  readonly items: readonly DebitItem[];
  /** the first transaction and its replacements; any of them may be on chain */
  readonly payloads: readonly string[];
}

/** Every change to the books; amounts in token base units. */
export type Entry =
  | {
      readonly kind: "reserved";
      readonly idHash: Hex;
      readonly amount: bigint;
      readonly calls: number;
      readonly block: number;
      /** with this charge, where it gets a receipt */
      readonly receipt?: ReceiptCount | undefined;
    }
  | {
      readonly kind: "sealed";
      readonly batch: number;
      readonly items: readonly DebitItem[];
      readonly payloads: readonly string[];
    }
  | { readonly kind: "replaced"; readonly batch: number; readonly payload: string }
  | {
      readonly kind: "resolved";
      readonly batch: number;
      readonly results: readonly DebitResult[];
      readonly block: number;
    }
  /** its settled debits were reorganised away: the same bytes are sent again */
  | { readonly kind: "reopened"; readonly batch: number }
  | { readonly kind: "blocked"; readonly idHash: Hex; readonly reason: BlockReason }
  | { readonly kind: "rekeyed"; readonly idHash: Hex; readonly to: Hex; readonly block: number }
  | { readonly kind: "lost"; readonly idHash: Hex; readonly amount: bigint; readonly reason: LossReason };

/** What one running meter has reserved ahead; amounts in token base units. */
export interface Hold {
  readonly name: Hex;
  /** left of it */
  readonly amount: bigint;
  /** used of it, and charged */
  readonly charged: bigint;
  /** unix milliseconds by the store's clock, after which any gate releases it; undefined: while its process lives */
  readonly untilMs: number | undefined;
}

export interface MeteredAccount {
  readonly idHash: Hex;
  /** reserved and in no batch */
  pending: bigint;
  /** calls merged into `pending` */
  calls: number;
  /** reserved ahead of delivery by meters of running answers */
  holds: Hold[];
  inFlight: DebitItem[];
  /** the newest settled debits, which the gate's view of the chain may not show yet */
  landed: DebitItem[];
  /** the chain's index is at least this, seen from `settledBlock` on */
  nextIndex: number;
  settledBlock: number;
  blocked: BlockReason | undefined;
  /** the newest block at which the gate or the sender saw this subscription */
  seenBlock: number;
  lost: bigint;
}

export interface Totals {
  charged: bigint;
  settled: bigint;
  lost: bigint;
}

/** Enough for any view of the chain that is a few debits behind. */
const LANDED_KEPT = 16;

const BATCHES_KEPT = 8;

/** Above this many, accounts that owe nothing are forgotten. */
const ACCOUNTS_KEPT = 50_000;

export class Books {
  readonly accounts = new Map<Hex, MeteredAccount>();
  readonly batches = new Map<number, Batch>();
  /** from a rekeyed idHash to the one that carries on */
  readonly successors = new Map<Hex, Hex>();
  /** settled recently, newest last: what a reorganisation could revert */
  readonly recent: Batch[] = [];
  readonly totals: Totals = { charged: 0n, settled: 0n, lost: 0n };
  /** by the idHash that was charged, which a rekey does not move; kept while nothing is owed */
  readonly receipts = new Map<Hex, ReceiptCount>();
  nextBatch = 1;
  private trimAt = ACCOUNTS_KEPT;

  /** Returns the idHash under which this one's debits are kept, after rekeys. */
  current(idHash: Hex): Hex {
    let at = idHash;
    for (let next = this.successors.get(at); next !== undefined; next = this.successors.get(at)) at = next;
    return at;
  }

  find(idHash: Hex): MeteredAccount | undefined {
    return this.accounts.get(this.current(idHash));
  }

  account(idHash: Hex): MeteredAccount {
    const at = this.current(idHash);
    let account = this.accounts.get(at);
    if (account === undefined) {
      account = emptyAccount(at);
      this.accounts.set(at, account);
    }
    return account;
  }

  apply(entry: Entry): void {
    switch (entry.kind) {
      case "reserved": {
        const account = this.account(entry.idHash);
        account.pending += entry.amount;
        account.calls += entry.calls;
        account.seenBlock = Math.max(account.seenBlock, entry.block);
        this.totals.charged += entry.amount;
        if (entry.receipt) this.receipts.set(entry.idHash, entry.receipt);
        return;
      }
      case "sealed":
        this.seal(entry);
        return;
      case "replaced": {
        const batch = this.batch(entry.batch);
        this.batches.set(batch.id, { ...batch, payloads: [...batch.payloads, entry.payload] });
        return;
      }
      case "resolved":
        this.resolve(entry);
        return;
      case "reopened":
        this.reopen(entry.batch);
        return;
      case "blocked":
        this.account(entry.idHash).blocked = entry.reason;
        return;
      case "rekeyed":
        this.rekey(entry);
        return;
      case "lost": {
        const account = this.account(entry.idHash);
        account.pending -= entry.amount;
        account.lost += entry.amount;
        this.totals.lost += entry.amount;
        // With nothing owed no debit can succeed and lift the block; the next charge judges the wallet again.
        if (account.pending === 0n) clearPending(account);
        return;
      }
    }
  }

  private batch(id: number): Batch {
    const batch = this.batches.get(id);
    if (batch === undefined) throw new TurnpikeError("Internal", `The meter's books have no batch ${id}.`);
    return batch;
  }

  private seal(entry: Extract<Entry, { kind: "sealed" }>): void {
    this.batches.set(entry.batch, { id: entry.batch, items: entry.items, payloads: entry.payloads });
    this.nextBatch = Math.max(this.nextBatch, entry.batch + 1);
    for (const item of entry.items) {
      const account = this.account(item.idHash);
      account.inFlight.push(item);
      account.pending -= item.amount;
      if (account.pending === 0n) account.calls = 0;
    }
  }

  private resolve({ batch: id, results, block }: Extract<Entry, { kind: "resolved" }>): void {
    const batch = this.batch(id);
    this.batches.delete(id);
    const settled = batch.items.filter((_, i) => results[i]?.kind === "settled");
    if (settled.length > 0) this.recent.push({ ...batch, items: settled });
    if (this.recent.length > BATCHES_KEPT) this.recent.shift();
    batch.items.forEach((item, i) => {
      const account = this.account(item.idHash);
      account.inFlight = account.inFlight.filter((other) => other !== item && !isSameDebit(other, item));
      if (results[i]?.kind === "settled") {
        account.landed = [...account.landed.slice(1 - LANDED_KEPT), item];
        account.nextIndex = Math.max(account.nextIndex, item.index + 1);
        account.settledBlock = Math.max(account.settledBlock, block);
        account.blocked = undefined;
        this.totals.settled += item.amount;
      } else {
        account.pending += item.amount;
        account.calls = Math.max(account.calls, 1);
      }
    });
    if (this.accounts.size > this.trimAt) this.trim();
  }

  private reopen(id: number): void {
    const at = this.recent.findIndex((one) => one.id === id);
    const [batch] = at < 0 ? [] : this.recent.splice(at, 1);
    if (batch === undefined) return;
    this.batches.set(id, batch);
    for (const item of batch.items) {
      const account = this.account(item.idHash);
      account.landed = account.landed.filter((other) => !isSameDebit(other, item));
      account.inFlight.push(item);
      account.nextIndex = Math.min(account.nextIndex, item.index);
      this.totals.settled -= item.amount;
    }
  }

  private trim(): void {
    for (const account of this.accounts.values()) if (!hasBalance(account)) this.accounts.delete(account.idHash);
    this.trimAt = Math.max(ACCOUNTS_KEPT, 2 * this.accounts.size);
  }

  /**
   * Moves an account to its new idHash, with allowance and index, as the chain does. Debits under way keep the old
   * idHash.
   */
  private rekey(entry: Extract<Entry, { kind: "rekeyed" }>): void {
    const from = this.account(entry.idHash);
    if (from.idHash === this.current(entry.to)) return;
    this.accounts.delete(from.idHash);
    this.successors.set(from.idHash, entry.to);
    const to = this.account(entry.to);
    to.pending += from.pending;
    to.calls += from.calls;
    to.holds.push(...from.holds);
    to.inFlight.push(...from.inFlight);
    to.landed.push(...from.landed);
    to.nextIndex = Math.max(to.nextIndex, from.nextIndex);
    to.settledBlock = Math.max(to.settledBlock, from.settledBlock);
    to.blocked ??= from.blocked;
    to.seenBlock = Math.max(to.seenBlock, entry.block);
    to.lost += from.lost;
  }
}

export function emptyAccount(idHash: Hex): MeteredAccount {
  return {
    idHash,
    pending: 0n,
    calls: 0,
    holds: [],
    inFlight: [],
    landed: [],
    nextIndex: 0,
    settledBlock: 0,
    blocked: undefined,
    seenBlock: 0,
    lost: 0n,
  };
}

function clearPending(account: MeteredAccount): void {
  account.calls = 0;
  account.blocked = undefined;
}

function isSameDebit(a: DebitItem, b: DebitItem): boolean {
  return a.index === b.index && a.idHash === b.idHash;
}

function sumOf(items: readonly { readonly amount: bigint }[]): bigint {
  let sum = 0n;
  for (const item of items) sum += item.amount;
  return sum;
}

/** Returns what is set aside for meters that run now, base units. */
export function heldOf({ holds }: MeteredAccount): bigint {
  return holds.length === 0 ? 0n : sumOf(holds);
}

/** Returns what a cancellation now could cost the provider. */
export function unsettledOf(account: MeteredAccount): bigint {
  const { pending, inFlight } = account;
  return pending + heldOf(account) + (inFlight.length === 0 ? 0n : sumOf(inFlight));
}

/** Returns whether this account has a balance, a block or a loss: anything that the chain does not have. */
export function hasBalance(account: MeteredAccount): boolean {
  return unsettledOf(account) > 0n || account.blocked !== undefined || account.lost > 0n;
}

/**
 * Returns cap - spent - reserved, never below zero. The facts may be older or newer than the books: a debit under way
 * whose index the chain has passed is in `spent` already, a settled one that it has not reached is not.
 */
export function remainingOf(account: MeteredAccount | undefined, facts: AllowanceFacts): bigint {
  let remaining = facts.cap - facts.spent;
  if (account !== undefined) {
    remaining -= account.pending + heldOf(account);
    for (const item of account.inFlight) if (item.index >= facts.debits) remaining -= item.amount;
    for (const item of account.landed) if (item.index >= facts.debits) remaining -= item.amount;
  }
  return remaining > 0n ? remaining : 0n;
}

export function isFundsReason(reason: ErrorCode | undefined): reason is FundsReason {
  return reason === "InsufficientFunds" || reason === "InsufficientApproval";
}
