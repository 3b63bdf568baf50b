/**
 * Keeps what this process last read or wrote of a shared meter's cells, as texts and as books. The store decides; this
 * view may be slightly old. Also defines how accounts and the sender's state are written as cells.
 */
import { Unavailable } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { AskedChange, Cells } from "../cells/cells";
import { type Batch, Books, emptyAccount, hasBalance, type MeteredAccount, type Totals } from "./books";
import type { ReceiptCount } from "./receipt-count";

/** The sender's cell; each subscription has one of its own. Amounts as "123n". */
export interface SenderState {
  /** the process that sends; "" when none does */
  readonly owner: string;
  /** unix milliseconds, by the store's clock */
  readonly leaseUntilMs: number;
  /** counts every change, so that no two texts are the same */
  readonly turn: number;
  readonly batches: readonly Batch[];
  readonly recent: readonly Batch[];
  readonly successors: readonly (readonly [Hex, Hex])[];
  readonly totals: Totals;
  readonly nextBatch: number;
}

const EMPTY: SenderState = {
  owner: "",
  leaseUntilMs: 0,
  turn: 0,
  batches: [],
  recent: [],
  successors: [],
  totals: { charged: 0n, settled: 0n, lost: 0n },
  nextBatch: 1,
};

export const SENDER_KEY = "lane";

const ACCOUNT_PREFIX = "account:";

const RECEIPT_PREFIX = "receipt:";

/** Above this many, cells of subscriptions that owe nothing are not remembered. */
const KEPT = 50_000;

/** How often accounts are read again when debits are recorded meanwhile; the next refresh follows soon. */
const MAX_REFRESHES = 3;

/** How often a change is retried when other gates are quicker. */
export const MAX_TRIES = 50;

export function contended(): Unavailable {
  return new Unavailable("The meter's store is contended.", { retryAfterSec: 1 });
}

export const accountKey = (idHash: Hex): string => `${ACCOUNT_PREFIX}${idHash}`;

/** Of the last receipt's number; by the idHash that was charged, which a rekey does not move. */
export const receiptKey = (idHash: Hex): string => `${RECEIPT_PREFIX}${idHash}`;

export const receiptText = (receipt: ReceiptCount): string => JSON.stringify(receipt, toJson);

export const readReceipt = (text: string): ReceiptCount => JSON.parse(text, fromJson) as ReceiptCount;

export const senderText = (sender: SenderState): string => JSON.stringify(sender, toJson);

const readSender = (text: string | undefined): SenderState =>
  text === undefined ? EMPTY : (JSON.parse(text, fromJson) as SenderState);

/**
 * Writes an account as its cell's text.
 * @param isUrgent a gate waits for this subscription's debit; the mark comes first, so that it is found without parsing
 */
export function accountText(account: MeteredAccount, isUrgent = false): string {
  // Written for every call, so without JSON.stringify: five times faster.
  const { idHash, pending, calls, nextIndex, settledBlock, blocked, seenBlock, lost } = account;
  const holds = listText(account.holds);
  const [inFlight, landed] = [listText(account.inFlight), listText(account.landed)];
  const start = `{${isUrgent ? '"hurried":true,' : ""}"account":{"idHash":"${idHash}","pending":"${pending}n","calls":${calls}`;
  const lists = `"holds":${holds},"inFlight":${inFlight},"landed":${landed},"nextIndex":${nextIndex}`;
  const end = `"settledBlock":${settledBlock},${blocked === undefined ? "" : `"blocked":"${blocked}",`}"seenBlock":${seenBlock}`;
  return `${start},${lists},${end},"lost":"${lost}n"}}`;
}

const listText = (list: readonly object[]): string => (list.length === 0 ? "[]" : JSON.stringify(list, toJson));

export function readAccount(text: string): MeteredAccount {
  const { account } = JSON.parse(text, fromJson) as { account: MeteredAccount };
  // JSON leaves out what is undefined, and a gate of an earlier version writes no holds.
  return { ...account, holds: account.holds ?? [], blocked: account.blocked };
}

export class SharedView {
  readonly #cells: Cells;
  readonly #texts = new Map<string, string | undefined>();
  #sender = EMPTY;
  #books = new Books();

  constructor(cells: Cells) {
    this.#cells = cells;
  }

  get sender(): SenderState {
    return this.#sender;
  }

  get books(): Books {
    return this.#books;
  }

  has(key: string): boolean {
    return this.#texts.has(key);
  }

  text(key: string): string | undefined {
    return this.#texts.get(key);
  }

  /** Forgets every account, and that any cell was read. */
  clear(): void {
    this.#books = new Books();
    this.#texts.clear();
  }

  async reread(keys: readonly string[]): Promise<void> {
    const found = await this.#cells.read(keys);
    keys.forEach((key, i) => void this.#learn(key, found[i]));
  }

  /** Returns what the cell of an account says, as a copy. */
  account(key: string): MeteredAccount | undefined {
    const idHash = key.slice(ACCOUNT_PREFIX.length) as Hex;
    const account = this.#texts.get(key) === undefined ? undefined : this.#books.accounts.get(idHash);
    return (
      account && { ...account, holds: [...account.holds], inFlight: [...account.inFlight], landed: [...account.landed] }
    );
  }

  /**
   * Makes all changes in the store, or none if another gate was quicker.
   * @param account what one of the changes writes
   * @returns whether they were made
   */
  async swap(changes: readonly AskedChange[], account?: MeteredAccount): Promise<boolean> {
    const isMade = await this.#cells.swap(changes, { isDurable: true });
    if (!isMade) return false;
    for (const { key, next } of changes) {
      this.#learn(key, next, account && key === accountKey(account.idHash) ? account : undefined);
    }
    // An entry of the sender changes accounts and totals together.
    const isEntry = changes.length > 1 && changes.some(({ key }) => key === SENDER_KEY);
    if (isEntry) Object.assign(this.#books.totals, this.#sender.totals);
    return true;
  }

  /** Reads what other gates changed. The totals that are reported are of the moment at which the accounts were read. */
  async refresh(): Promise<void> {
    const known = [...this.#books.accounts.values()].filter(hasBalance).map(({ idHash }) => accountKey(idHash));
    let found: ReadonlyMap<string, string | undefined>;
    let before: string | undefined;
    let tries = 0;
    do {
      [before] = await this.#cells.read([SENDER_KEY]);
      found = await this.#readBalances(known);
    } while (found.get(SENDER_KEY) !== before && ++tries < MAX_REFRESHES);
    for (const [key, text] of found) this.#learn(key, text);
    Object.assign(this.#books.totals, this.#sender.totals);
    if (this.#texts.size > KEPT) this.#evictIdle();
  }

  /** Reads every account that has a balance, those that had one, and then the sender's cell. */
  async #readBalances(known: readonly string[]): Promise<ReadonlyMap<string, string | undefined>> {
    const found = new Map<string, string | undefined>();
    for (const { key, text } of await this.#cells.listed()) found.set(key, text);
    const others = [...known.filter((key) => !found.has(key)), SENDER_KEY];
    const texts = await this.#cells.read(others);
    others.forEach((key, i) => void found.set(key, texts[i]));
    return found;
  }

  /** Returns the accounts whose debit another gate waits for. */
  urgent(): Hex[] {
    return [...this.#texts.values()].flatMap((text) =>
      text?.startsWith('{"hurried":true') ? [readAccount(text).idHash] : [],
    );
  }

  /**
   * Builds books of these accounts alone, to apply one entry to.
   * @param moved the account that the entry moves to its successor
   */
  draft(accountKeys: readonly string[], moved?: Hex): Books {
    const draft = new Books();
    for (const key of accountKeys) {
      const account = this.account(key);
      if (account) draft.accounts.set(account.idHash, account);
    }
    const { batches, recent, successors, totals, nextBatch } = this.#sender;
    for (const batch of batches) draft.batches.set(batch.id, batch);
    draft.recent.push(...recent);
    // An account that a gate with an old view reserved under the old idHash is moved again.
    for (const [from, to] of successors) if (from !== moved) draft.successors.set(from, to);
    Object.assign(draft.totals, totals);
    draft.nextBatch = nextBatch;
    return draft;
  }

  /** Returns the changes that write a draft's accounts and the sender's state. */
  changesTo(draft: Books, accountKeys: readonly string[]): AskedChange[] {
    const changes: AskedChange[] = [];
    for (const key of accountKeys) {
      const idHash = key.slice(ACCOUNT_PREFIX.length) as Hex;
      const expected = this.#texts.get(key);
      // Rekeyed: nothing is left under the old idHash.
      const account = draft.accounts.get(idHash) ?? (expected === undefined ? undefined : emptyAccount(idHash));
      if (account) changes.push({ key, expected, next: accountText(account), listed: hasBalance(account) });
    }
    const { recent, successors, totals, nextBatch } = draft;
    const batches = [...draft.batches.values()];
    changes.push(this.changeOfSender({ batches, recent, successors: [...successors], totals, nextBatch }));
    return changes;
  }

  changeOfSender(change: Partial<SenderState>): AskedChange {
    const next = senderText({ ...this.#sender, ...change, turn: this.#sender.turn + 1 });
    return { key: SENDER_KEY, expected: this.#texts.get(SENDER_KEY), next };
  }

  #learn(key: string, text: string | undefined, known?: MeteredAccount): void {
    if (text === this.#texts.get(key) && this.#texts.has(key)) return;
    this.#texts.set(key, text);
    if (key.startsWith(RECEIPT_PREFIX)) return;
    if (key !== SENDER_KEY) {
      const account = known ?? (text === undefined ? undefined : readAccount(text));
      if (account) this.#books.accounts.set(account.idHash, account);
      return;
    }
    const sender = readSender(text);
    this.#sender = sender;
    this.#books.batches.clear();
    for (const batch of sender.batches) this.#books.batches.set(batch.id, batch);
    this.#books.recent.splice(0, this.#books.recent.length, ...sender.recent);
    for (const [from, to] of sender.successors) this.#books.successors.set(from, to);
    this.#books.nextBatch = sender.nextBatch;
  }

  #evictIdle(): void {
    for (const account of [...this.#books.accounts.values()]) {
      if (hasBalance(account)) continue;
      this.#books.accounts.delete(account.idHash);
      this.#texts.delete(accountKey(account.idHash));
    }
    for (const key of [...this.#texts.keys()]) if (key.startsWith(RECEIPT_PREFIX)) this.#texts.delete(key);
  }
}

/** Amounts in JSON become "123n": no other text of a meter has this form. */
const BIGINT = /^-?\d+n$/;

export const toJson = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? `${value}n` : value);

export const fromJson = (_key: string, value: unknown): unknown =>
  typeof value === "string" && BIGINT.test(value) ? BigInt(value.slice(0, -1)) : value;
