/**
 * Defines where a meter keeps its books, and keeps books in memory for tests. A file serves one process; a store that
 * several gates share (Redis, PostgreSQL) has its own atomic `reserve`.
 */
import type { Hex } from "../../protocol/hex";
import { type Batch, Books, type Entry, type MeteredAccount, type Totals } from "./books";
import { chargeHold, GONE, type HeldCharge, type HoldCharge, type HoldRequest, holdAhead } from "./holds";
import { nextReceipt } from "./receipt-count";
import { decideReservation, type Reserved, type ReserveRequest } from "./reservation";

/** Keeps a meter's books in memory: for tests only, never where real money is charged. */
export function createMemoryMeterStore(): MeterStore {
  const books = new Books();
  return {
    ...localBooks(() => books),
    open: async () => undefined,
    async reserve(request) {
      const { decision, entry } = reserveLocally(books, request);
      if (entry) books.apply(entry);
      return decision;
    },
    async chargeHold(request) {
      const charge = chargeLocalHold(books, request);
      if (charge?.entry) books.apply(charge.entry);
      return charge?.done ?? GONE;
    },
    async record(entry) {
      books.apply(entry);
    },
    close: async () => undefined,
  };
}

/** A charge, as it is applied and journaled. */
type ReservedEntry = Extract<Entry, { kind: "reserved" }>;

interface LocalCharge {
  readonly request: Pick<ReserveRequest, "idHash" | "facts" | "isReceipted">;
  /** base units, > 0 */
  readonly amount: bigint;
}

function entryOf(books: Books, { request, amount }: LocalCharge): ReservedEntry {
  const { idHash, facts, isReceipted } = request;
  const entry = { kind: "reserved", idHash, amount, calls: 1, block: facts.blockNumber } as const;
  return isReceipted ? { ...entry, receipt: nextReceipt(books.receipts.get(idHash), facts, amount) } : entry;
}

/** Decides a reservation in books of one process. @returns the entry to apply and journal, if any */
export function reserveLocally(
  books: Books,
  request: ReserveRequest,
): { readonly decision: Reserved; readonly entry?: ReservedEntry } {
  const decision = decideReservation(books.find(request.idHash), request);
  if (decision.kind !== "reserved") return { decision };
  const entry = entryOf(books, { request, amount: decision.charged });
  return { decision: { ...decision, receipt: entry.receipt }, entry };
}

/**
 * Applies a charge to a hold in books of one process.
 * @returns the hold as it was, and the entry to apply and journal, if any; undefined for a hold that is gone
 */
export function chargeLocalHold(books: Books, request: HoldCharge) {
  const { idHash, name } = request;
  const account = books.account(idHash);
  const before = account.holds.find((hold) => hold.name === name);
  const charge = chargeHold(account, request);
  if (before === undefined || charge === undefined) return undefined;
  const entry = charge.added === 0n ? undefined : entryOf(books, { request, amount: charge.added });
  return { before, entry, done: { ...charge, receipt: entry?.receipt } };
}

type LocalBooks = Omit<MeterStore, "open" | "requireHealthy" | "reserve" | "chargeHold" | "record" | "close">;

/** Implements a store's holds and views for books that only one process uses. */
export function localBooks(books: () => Books): LocalBooks {
  return {
    isShared: false,
    async holdAhead(request) {
      return holdAhead(books().account(request.idHash), request);
    },
    account: (idHash) => books().find(idHash),
    accounts: () => books().accounts.values(),
    everyAccount: () => books().accounts.values(),
    reload: async () => undefined,
    urgent: () => [],
    requestSettlement: async () => undefined,
    endRequest: async () => undefined,
    setSending: () => undefined,
    batches: () => [...books().batches.values()],
    recent: () => books().recent,
    nextBatch: () => books().nextBatch,
    totals: () => books().totals,
  };
}

/** The books of one meter, and what may be done to them; amounts in token base units. */
export interface MeterStore {
  /** Returns whether other processes reserve in these books, and one of them may send instead of this one. */
  readonly isShared: boolean;
  /**
   * Takes the lock, or joins the shared store, and reads the books.
   * @param place the contract whose charges they are, with its chain: a store that others share refuses another one
   * @throws ConfigError, LedgerLocked
   */
  open(place?: string): Promise<void>;
  /** Throws when nothing can be written. Without it each call fails on its own. */
  requireHealthy?(): void;
  /** Decides at once against everything reserved so far; resolves when it is durable. @throws Unavailable */
  reserve(request: ReserveRequest): Promise<Reserved>;
  /**
   * Holds an amount ahead of delivery, until `chargeHold` releases it. With one process the hold ends with it; a shared
   * store keeps it, and releases it when it is not renewed in time.
   */
  holdAhead(request: HoldRequest): Promise<Reserved>;
  /**
   * Charges what was used of a hold, and renews it or releases the rest; resolves when the charge is durable.
   * Safe to repeat.
   * @throws Unavailable
   */
  chargeHold(request: HoldCharge): Promise<HeldCharge>;
  /** Resolves when the change is durable. A shared store refuses it from a process without the subscription's lease. */
  record(entry: Exclude<Entry, { kind: "reserved" }>): Promise<void>;
  /**
   * Waits until a replica that may take the store's place has all that was recorded. Absent where there is none.
   * @throws Unavailable while it lags
   */
  replicated?(): Promise<void>;
  /** Returns this process's view; with a shared store it may be slightly old (`reserve` decides). */
  account(idHash: Hex): Readonly<MeteredAccount> | undefined;
  /** The accounts whose debits this process sends; a shared store leases each to one process at a time. */
  accounts(): Iterable<Readonly<MeteredAccount>>;
  /** Every account that this process knows, whichever gate sends its debits: for views. */
  everyAccount(): Iterable<Readonly<MeteredAccount>>;
  /** Accounts whose debit another gate waits for, to be sent by this one. */
  urgent(): Iterable<Hex>;
  /** Reads what other gates have changed; does nothing for a store of one process. */
  reload(): Promise<void>;
  /** Asks the sending gate to debit this subscription now; does nothing where this process sends. */
  requestSettlement(idHash: Hex): Promise<void>;
  /** Ends what other gates have asked: the debit of this subscription was tried. Never rejects. */
  endRequest(idHash: Hex): Promise<void>;
  /** Sets whether this process may send the debits of a shared store; if not, it releases the lease. */
  setSending(maySend: boolean): void;
  /** Sealed and unresolved, under this process's leases. */
  batches(): readonly Batch[];
  /** Settled recently, newest last, for as long as a reorganisation could revert them. */
  recent(): readonly Batch[];
  /** The number of the next debit batch: never one that was used before. */
  nextBatch(): number;
  /** Charged, settled and lost since the books began. */
  totals(): Readonly<Totals>;
  /** Resolves when everything is durable and the lock is free. */
  close(): Promise<void>;
}
