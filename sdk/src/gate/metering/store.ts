/** Defines what a meter asks of its books, wherever they are kept, and what it reports. */
import type { ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import {
  type Batch,
  type BlockReason,
  type Entry,
  hasBalance,
  heldOf,
  type LossReason,
  type MeteredAccount,
  type Totals,
  unsettledOf,
} from "./books";
import type { HeldCharge, HoldCharge, HoldRequest, Reserved, ReserveRequest } from "./reservation";

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
