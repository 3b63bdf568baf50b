/** Defines what a meter asks of its books, wherever they are kept. */
import type { Hex } from "../../protocol/hex";
import type { Batch, Entry, MeteredAccount, Totals } from "./books";
import type { HeldCharge, HoldCharge, HoldRequest } from "./holds";
import type { Reserved, ReserveRequest } from "./reservation";

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
