/**
 * Defines what a meter asks of its books, wherever they are kept, and what it reports; and decides what may be reserved in
 * an account: under its cap, and under what may be unsettled.
 */

import type { AllowanceFacts } from "../../chain/debit-sender";
import { type ErrorCode, isTurnpikeError, Unavailable } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import {
  type Batch,
  type BlockReason,
  type Entry,
  hasBalance,
  heldOf,
  isFundsReason,
  type LossReason,
  type MeteredAccount,
  remainingOf,
  type Totals,
  unsettledOf,
} from "./books";
import type { ReceiptCount } from "./receipt-count";

/** The books of one meter, and what may be done to them; amounts in token base units. */
export interface MeterStore {
  /** whether this process sends the debits: of those that share the books, one at a time does */
  readonly isSender: boolean;
  /**
   * Reads the books, and becomes the sender where there is none.
   * @param place the contract whose charges they are, with its chain: books of another one are refused
   * @throws ConfigError
   */
  open(place?: string): Promise<void>;
  /** Throws when nothing can be written. Without it each call fails on its own. */
  requireHealthy?(): void;
  /** Decides at once against everything reserved so far; resolves when it is durable. @throws Unavailable */
  reserve(request: ReserveRequest): Promise<Reserved>;
  /**
   * Holds an amount ahead of delivery, until `chargeHold` releases it, or it is not renewed in time.
   */
  holdAhead(request: HoldRequest): Promise<Reserved>;
  /**
   * Charges what was used of a hold, and renews it or releases the rest; resolves when the charge is durable.
   * Safe to repeat.
   * @throws Unavailable
   */
  chargeHold(request: HoldCharge): Promise<HeldCharge>;
  /** Resolves when the change is durable. Refused of a process that is not the sender. */
  record(entry: Exclude<Entry, { kind: "reserved" }>): Promise<void>;
  /**
   * Waits until a replica that may take the store's place has all that was recorded. Absent where there is none.
   * @throws Unavailable while it lags
   */
  replicated?(): Promise<void>;
  /** Returns this process's view, which may be slightly old: `reserve` decides. */
  account(idHash: Hex): Readonly<MeteredAccount> | undefined;
  /** The accounts whose debits this process sends; none where another one does. */
  accounts(): Iterable<Readonly<MeteredAccount>>;
  /** Every account that this process knows, whichever gate sends its debits: for views. */
  everyAccount(): Iterable<Readonly<MeteredAccount>>;
  /** Accounts whose debit another gate waits for, to be sent by this one. */
  urgent(): Iterable<Hex>;
  /** Reads what other gates have changed. */
  reload(): Promise<void>;
  /** Asks the sending gate to debit this subscription now; does nothing where this process sends. */
  requestSettlement(idHash: Hex): Promise<void>;
  /** Ends what other gates have asked: the debit of this subscription was tried. Never rejects. */
  endRequest(idHash: Hex): Promise<void>;
  /** Sets whether this process may send the debits; if not, it releases the lease. */
  setSending(maySend: boolean): void;
  /** Sealed and unresolved; none where another process sends. */
  batches(): readonly Batch[];
  /** Settled recently, newest last, for as long as a reorganisation could revert them. */
  recent(): readonly Batch[];
  /** The number of the next debit batch: never one that was used before. */
  nextBatch(): number;
  /** Charged, settled and lost since the books began. */
  totals(): Readonly<Totals>;
  /** Resolves when everything is durable and the lease is free. */
  close(): Promise<void>;
}

/** One thing that happened to a subscription's debits, or to the meter itself; amounts in token base units. */
export type MeterEvent =
  | { readonly kind: "settled"; readonly idHash: Hex; readonly amount: bigint; readonly transaction: Hex | undefined }
  | { readonly kind: "blocked"; readonly idHash: Hex; readonly reason: BlockReason }
  | { readonly kind: "unblocked"; readonly idHash: Hex }
  | { readonly kind: "postponed"; readonly idHash: Hex; readonly reason: ErrorCode }
  | { readonly kind: "lost"; readonly idHash: Hex; readonly amount: bigint; readonly reason: LossReason }
  | { readonly kind: "rekeyed"; readonly idHash: Hex; readonly to: Hex }
  /** debits of this plan cannot be collected: metered requests are answered 503 until it is `collectable` again */
  | { readonly kind: "uncollectable"; readonly planId: Hex; readonly reason: ErrorCode; readonly message: string }
  | { readonly kind: "collectable"; readonly planId: Hex }
  /**
   * an upstream's answer stated no usage, or none that can be read: it was refused, or a stream was charged by its chunks,
   * the least that it can have used
   */
  | { readonly kind: "unstated"; readonly idHash: Hex; readonly basis: UnstatedBasis }
  /** a settled transaction was reorganised away and is sent again */
  | { readonly kind: "reorganised"; readonly batch: number }
  /** the chain, the Facilitator or the disk failed; the meter keeps retrying */
  | { readonly kind: "trouble"; readonly error: unknown };

/** What is known of an answer whose usage was not stated: its chunks of content, or nothing that can be read. */
export type UnstatedBasis = "chunks" | "unreadable";

export type MeterReport = (event: MeterEvent) => void;

/** What one subscription owes beyond what is final on chain; amounts in token base units. */
export interface UnsettledSubscription {
  readonly idHash: Hex;
  /** owed and not yet sent */
  readonly pending: bigint;
  /** in a debit whose outcome is not final */
  readonly inFlight: bigint;
  readonly blocked: BlockReason | undefined;
  /** owed by a subscription that was cancelled, or whose cap was lowered, before the debit */
  readonly lost: bigint;
}

/** Amounts in token base units; the totals run since the books began. */
export interface UnsettledReport {
  readonly unsettled: bigint;
  readonly charged: bigint;
  readonly settled: bigint;
  readonly lost: bigint;
  readonly subscriptions: readonly UnsettledSubscription[];
}

export function unsettledReport(store: MeterStore): UnsettledReport {
  const subscriptions: UnsettledSubscription[] = [];
  let unsettled = 0n;
  for (const account of store.everyAccount()) {
    if (!hasBalance(account)) continue;
    const owed = unsettledOf(account);
    unsettled += owed;
    const { idHash, blocked, lost } = account;
    const pending = account.pending + heldOf(account);
    subscriptions.push({ idHash, pending, inFlight: owed - pending, blocked, lost });
  }
  return { unsettled, ...store.totals(), subscriptions };
}

export interface ReserveRequest {
  readonly idHash: Hex;
  /** base units, > 0 */
  readonly amount: bigint;
  readonly facts: AllowanceFacts;
  /** false: where less remains than the amount, answer `short`, since the facts may be old; default true */
  readonly mayClip?: boolean;
  /** base units; reserving never brings what is unsettled above it, a single larger call on an empty account aside */
  readonly maxUnsettled: bigint;
  /** whether to number a receipt for the charge; default false */
  readonly isReceipted?: boolean;
  /** holds of the same answer */
  readonly own?: readonly Hex[];
}

export type Reserved =
  | {
      readonly kind: "reserved";
      readonly charged: bigint;
      readonly remaining: bigint;
      /** the number of its receipt, and the sum with it */
      readonly receipt?: ReceiptCount | undefined;
    }
  | { readonly kind: "exhausted" }
  /** running answers hold what is left of the cap, and may release it: retry */
  | { readonly kind: "contended" }
  /** less remains than was asked for: ask again with the chain's newest facts */
  | { readonly kind: "short" }
  | { readonly kind: "blocked" }
  /** maxUnsettled is reached: retry when debits are final */
  | { readonly kind: "saturated" };

/** Returns whether running answers hold some of the cap. @param own holds to leave out */
export function isHeldByOthers(account: Readonly<MeteredAccount> | undefined, own: readonly Hex[] = []): boolean {
  return account?.holds.some(({ name, amount }) => amount > 0n && !own.includes(name)) ?? false;
}

/** Decides a reservation. A cost above the remainder is clipped to it and served; an empty remainder is a refusal. */
export function decideReservation(account: MeteredAccount | undefined, request: ReserveRequest): Reserved {
  if (isFundsReason(account?.blocked)) return { kind: "blocked" };
  const remaining = remainingOf(account, request.facts);
  if (request.mayClip === false && request.amount > remaining) return { kind: "short" };
  if (remaining === 0n) return { kind: isHeldByOthers(account, request.own) ? "contended" : "exhausted" };
  const isClipped = request.amount > remaining;
  const charged = isClipped ? remaining : request.amount;
  const unsettled = account === undefined ? 0n : unsettledOf(account);
  if (unsettled > 0n && unsettled + charged > request.maxUnsettled) return { kind: "saturated" };
  return { kind: "reserved", charged, remaining: remaining - charged };
}

const HELD_BY_OTHERS = "cap_reserved";

/** The refusal of what is `contended`. */
export function heldByOthers(): Unavailable {
  return new Unavailable("Answers that are running have reserved the rest of this subscription's cap.", {
    reason: HELD_BY_OTHERS,
    retryAfterSec: 5,
  });
}

/** Returns whether nothing more of the cap can be reserved now. */
export function isOutOfCap(error: unknown): boolean {
  if (!isTurnpikeError(error)) return false;
  return error.code === "AllowanceExhausted" || error.reason === HELD_BY_OTHERS;
}

/**
 * Asks for at least `amount`, which is clipped to what remains unless others hold some of the cap, and `ahead` beyond
 * it: of what remains at most a quarter, so that near the cap one answer does not keep what the others need.
 */
export interface HoldRequest extends ReserveRequest {
  /** new for each hold */
  readonly name: Hex;
  readonly ahead: bigint;
}

export interface HoldCharge {
  readonly idHash: Hex;
  readonly name: Hex;
  /** base units of the hold that were used, since it began */
  readonly total: bigint;
  /** whether to release the rest of it */
  readonly release: boolean;
  /** that it was held by */
  readonly facts: AllowanceFacts;
  /** whether to number a receipt for what is newly used; default false */
  readonly isReceipted?: boolean;
}

/** What a hold has charged; base units. */
export interface HeldCharge {
  /** since the hold began; 0 for one that is gone */
  readonly charged: bigint;
  /** by this charge: 0 for one that is repeated */
  readonly added: bigint;
  /** the number of its receipt, and the sum with it */
  readonly receipt?: ReceiptCount | undefined;
}

export const GONE: HeldCharge = { charged: 0n, added: 0n };

/** @param untilMs when others may release the hold; undefined: never */
export function holdAhead(account: MeteredAccount, request: HoldRequest, untilMs?: number): Reserved {
  const { name, ahead, facts, maxUnsettled } = request;
  // An attempt whose answer was lost is replaced.
  account.holds = account.holds.filter((hold) => hold.name !== name);
  const decision = decideReservation(account, request);
  if (decision.kind !== "reserved") return decision;
  const { charged: needed, remaining } = decision;
  // Not the cap's end: others may release what they hold.
  if (needed < request.amount && isHeldByOthers(account, request.own)) return { kind: "contended" };
  const extra = smallest(ahead, remaining / 4n, maxUnsettled - unsettledOf(account) - needed);
  account.holds.push({ name, amount: needed + extra, charged: 0n, untilMs });
  account.seenBlock = Math.max(account.seenBlock, facts.blockNumber);
  return { kind: "reserved", charged: needed + extra, remaining: remaining - extra };
}

/**
 * Takes what was used out of a hold; the caller makes it pending.
 * @returns `added`: base units newly used; `charged`: since the hold began. undefined for a hold that is gone
 */
export function chargeHold(
  account: MeteredAccount,
  { name, total, release }: HoldCharge,
  untilMs?: number,
): HeldCharge | undefined {
  const hold = account.holds.find((other) => other.name === name);
  if (hold === undefined) return undefined;
  const used = smallest(total - hold.charged, hold.amount);
  const [charged, amount] = [hold.charged + used, hold.amount - used];
  const others = account.holds.filter((other) => other !== hold);
  account.holds = release ? others : [...others, { name, amount, charged, untilMs }];
  return { added: used, charged };
}

/** Releases the holds of gates that have not renewed them in time. @returns whether there were any */
export function releaseExpired(account: MeteredAccount, nowMs: number): boolean {
  const live = account.holds.filter(({ untilMs }) => untilMs === undefined || untilMs > nowMs);
  const isChanged = live.length < account.holds.length;
  account.holds = live;
  return isChanged;
}

/** Returns the smallest amount, at least 0. */
export function smallest(...amounts: readonly bigint[]): bigint {
  let least = amounts[0] ?? 0n;
  for (const amount of amounts) if (amount < least) least = amount;
  return least > 0n ? least : 0n;
}
