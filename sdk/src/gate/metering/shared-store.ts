/**
 * Keeps a meter's books in a store that several gates share. Every gate reserves, by compare-and-swap on the
 * subscription's own cell. One gate at a time, the holder of the sender's lease, seals, sends and resolves debits. Each
 * of its entries also swaps the sender's cell, so that a former holder can write nothing more. The rules are in
 * books.ts.
 */
import { ConfigError, Unavailable } from "../../protocol/errors";
import { type Hex, randomBytes, toBase64Url } from "../../protocol/hex";
import { type AtomicStore, type CellChange, guardCells } from "../stores/atomic-store";
import {
  type Account,
  type Batch,
  Books,
  type Entry,
  emptyAccount,
  hasBalance,
  type Totals,
  unsettledOf,
} from "./books";
import { fromJson, toJson } from "./entry-line";
import { decideReservation, type MeterStore, type Reserved, type ReserveRequest } from "./store";

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

export const senderText = (sender: SenderState): string => JSON.stringify(sender, toJson);

export const readSender = (text: string | undefined): SenderState =>
  text === undefined ? EMPTY : (JSON.parse(text, fromJson) as SenderState);

/**
 * Writes an account as its cell's text.
 * @param isUrgent a gate waits for this subscription's debit; the mark comes first, so that it is found without parsing
 */
export function accountText(account: Account, isUrgent = false): string {
  return JSON.stringify(isUrgent ? { hurried: true, account } : { account }, toJson);
}

/** A fresh object each time: the caller may change it. */
export function readAccount(text: string): Account {
  const { account } = JSON.parse(text, fromJson) as { account: Account };
  // JSON leaves out what is undefined.
  return { ...account, blocked: account.blocked };
}

export interface SharedMeterOptions {
  /** how long the sender's lease outlives its last sign of life; default 15,000 */
  readonly leaseMs?: number;
  /** how often the others' changes are read; default 500 */
  readonly refreshMs?: number;
}

interface Waiting {
  readonly request: ReserveRequest;
  readonly resolve: (reserved: Reserved) => void;
  readonly reject: (error: unknown) => void;
}

const SENDER_KEY = "lane";

const MAX_TRIES = 50;

/** Above this many, cells of subscriptions that owe nothing are not remembered. */
const KEPT = 50_000;

const keyOf = (idHash: Hex): string => `account:${idHash}`;

export function sharedMeterStore(cells: AtomicStore, options: SharedMeterOptions = {}): MeterStore {
  const { leaseMs = 15_000, refreshMs = 500 } = options;
  const shared = guardCells(cells, { what: "The meter's store" });
  const self = toBase64Url(randomBytes(12));
  /** the texts that this process last read or wrote; the store decides */
  const texts = new Map<string, string | undefined>();
  let sender: SenderState = readSender(undefined);
  let books = new Books();
  const queues = new Map<Hex, Waiting[]>();
  let timer: NodeJS.Timeout | undefined;
  let refreshing: Promise<void> | undefined;
  let isOpen = false;
  let maySend = true;
  /** one entry at a time: each builds on the one before */
  let recording: Promise<unknown> = Promise.resolve();

  const isSender = (): boolean => sender.owner === self;

  function learn(key: string, text: string | undefined): void {
    texts.set(key, text);
    if (key === SENDER_KEY) {
      sender = readSender(text);
      books.batches.clear();
      for (const batch of sender.batches) books.batches.set(batch.id, batch);
      books.recent.splice(0, books.recent.length, ...sender.recent);
      for (const [from, to] of sender.successors) books.successors.set(from, to);
      Object.assign(books.totals, sender.totals);
      books.nextBatch = sender.nextBatch;
      return;
    }
    const account = text === undefined ? undefined : readAccount(text);
    if (account) books.accounts.set(account.idHash, account);
  }

  async function reread(keys: readonly string[]): Promise<void> {
    const found = await shared.read(keys);
    keys.forEach((key, i) => void learn(key, found[i]));
  }

  // ---------------------------------------------------------------- reserve

  /** Reserves for the calls of one subscription: those that arrive during a swap share the next one. */
  async function drain(idHash: Hex, queue: Waiting[]): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (queue.length > 0) {
      const round = queue.splice(0);
      try {
        const answers = await reserveTogether(idHash, round);
        round.forEach(({ resolve }, i) => void resolve(answers[i] as Reserved));
      } catch (error) {
        for (const { reject } of round) reject(error);
      }
    }
    queues.delete(idHash);
  }

  async function reserveTogether(idHash: Hex, round: readonly Waiting[]): Promise<Reserved[]> {
    let isCertain = false;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const key = keyOf(books.current(idHash));
      if (!texts.has(key)) {
        await reread([key]);
        isCertain = true;
      }
      const expected = texts.get(key);
      const account = expected === undefined ? emptyAccount(books.current(idHash)) : readAccount(expected);
      let saturates = false;
      const answers = round.map(({ request }): Reserved => {
        const decision = decideReservation(account, request);
        saturates ||= decision.kind === "saturated";
        if (decision.kind !== "reserved") return decision;
        account.pending += decision.charged;
        account.calls += 1;
        account.seenBlock = Math.max(account.seenBlock, request.facts.blockNumber);
        return decision;
      });
      const isRefused = answers.some(({ kind }) => kind !== "reserved");
      // A refusal must not rest on what another gate has changed meanwhile.
      if (isRefused && !isCertain) {
        await reread([key]);
        isCertain = true;
        continue;
      }
      const isUrgent = saturates;
      if (answers.every(({ kind }) => kind !== "reserved") && !isUrgent) return answers;
      const next = accountText(account, isUrgent);
      if (next === expected) return answers;
      if (await shared.compareAndSwap([{ key, expected, next, listed: true }])) {
        learn(key, next);
        return answers;
      }
      await reread([key]);
      isCertain = true;
    }
    throw new Unavailable("The meter's store is contended.", { retryAfterSec: 1 });
  }

  // ---------------------------------------------------------------- record

  function idHashesOf(entry: Entry): Hex[] {
    switch (entry.kind) {
      case "sealed":
        return entry.items.map(({ idHash }) => idHash);
      case "resolved":
      case "reopened": {
        const batch = books.batches.get(entry.batch) ?? books.recent.find(({ id }) => id === entry.batch);
        return batch?.items.map(({ idHash }) => idHash) ?? [];
      }
      case "rekeyed":
        return [entry.idHash, entry.to];
      case "replaced":
        return [];
      default:
        return [entry.idHash];
    }
  }

  /** Applies an entry to the current cells, and retries whenever another gate was quicker. */
  async function record(entry: Exclude<Entry, { kind: "reserved" }>): Promise<void> {
    if (!isSender()) throw lost();
    const keys = [...new Set(idHashesOf(entry).flatMap((idHash) => [keyOf(idHash), keyOf(books.current(idHash))]))];
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const before = new Map([SENDER_KEY, ...keys].map((key) => [key, texts.get(key)]));
      const draft = new Books();
      for (const [key, text] of before) if (key !== SENDER_KEY && text !== undefined) keep(draft, readAccount(text));
      for (const batch of sender.batches) draft.batches.set(batch.id, batch);
      draft.recent.push(...sender.recent);
      // An account that a gate with an old view reserved under the old idHash is moved again.
      const isMove = entry.kind === "rekeyed";
      for (const [from, to] of sender.successors) if (!isMove || from !== entry.idHash) draft.successors.set(from, to);
      Object.assign(draft.totals, sender.totals);
      draft.nextBatch = sender.nextBatch;
      draft.apply(entry);

      const changes = changesOf(draft, before, keys);
      if (await shared.compareAndSwap(changes)) {
        for (const { key, next } of changes) learn(key, next);
        return;
      }
      await reread([SENDER_KEY, ...keys]);
      if (!isSender()) throw lost();
    }
    throw new Unavailable("The meter's store is contended.", { retryAfterSec: 1 });
  }

  function changesOf(draft: Books, before: ReadonlyMap<string, string | undefined>, keys: readonly string[]) {
    const changes: CellChange[] = [];
    for (const key of keys) {
      const idHash = key.slice("account:".length) as Hex;
      const expected = before.get(key);
      // Rekeyed: nothing is left under the old idHash.
      const account = draft.accounts.get(idHash) ?? (expected === undefined ? undefined : emptyAccount(idHash));
      if (account) changes.push({ key, expected, next: accountText(account), listed: hasBalance(account) });
    }
    const batches = [...draft.batches.values()];
    const { recent, successors, totals, nextBatch } = draft;
    const next = senderText({
      ...sender,
      turn: sender.turn + 1,
      batches,
      recent,
      successors: [...successors],
      totals,
      nextBatch,
    });
    changes.push({ key: SENDER_KEY, expected: before.get(SENDER_KEY), next });
    return changes;
  }

  function keep(draft: Books, account: Account): void {
    draft.accounts.set(account.idHash, account);
  }

  // ---------------------------------------------------------------- lease and view

  /** Reads what other gates changed, and renews or acquires the sender's lease. */
  async function refresh(): Promise<void> {
    const known = [...books.accounts.values()].filter(hasBalance).map(({ idHash }) => keyOf(idHash));
    const found = new Map((await shared.listed()).map(({ key, text }) => [key, text]));
    for (const [key, text] of found) learn(key, text);
    const gone = known.filter((key) => !found.has(key));
    if (gone.length > 0) await reread(gone);
    if (texts.size > KEPT) evictIdle();
    if (!maySend) return releaseLease();
    if (!isSender() || sender.leaseUntilMs - (await shared.nowMs()) < (leaseMs * 2) / 3) await renewLease();
    if (!isSender()) return;
    for (const account of [...books.accounts.values()]) {
      const to = books.successors.get(account.idHash);
      if (to && hasBalance(account))
        await record({ kind: "rekeyed", idHash: account.idHash, to, block: account.seenBlock });
    }
  }

  function evictIdle(): void {
    for (const account of [...books.accounts.values()]) {
      if (hasBalance(account)) continue;
      books.accounts.delete(account.idHash);
      texts.delete(keyOf(account.idHash));
    }
  }

  async function renewLease(): Promise<void> {
    await reread([SENDER_KEY]);
    const nowMs = await shared.nowMs();
    if (!isSender() && sender.owner !== "" && sender.leaseUntilMs > nowMs) return;
    const next = senderText({ ...sender, owner: self, leaseUntilMs: nowMs + leaseMs, turn: sender.turn + 1 });
    if (await shared.compareAndSwap([{ key: SENDER_KEY, expected: texts.get(SENDER_KEY), next }]))
      learn(SENDER_KEY, next);
    else await reread([SENDER_KEY]);
  }

  async function releaseLease(): Promise<void> {
    if (!isSender()) return;
    const next = senderText({ ...sender, owner: "", leaseUntilMs: 0, turn: sender.turn + 1 });
    if (await shared.compareAndSwap([{ key: SENDER_KEY, expected: texts.get(SENDER_KEY), next }]))
      learn(SENDER_KEY, next);
    else await reread([SENDER_KEY]);
  }

  function schedule(): void {
    timer = setTimeout(() => {
      // After an entry that is being recorded: both change the sender's cell. A failure is retried soon and harmless
      // meanwhile: the store itself decides each reservation and each entry, or refuses it.
      refreshing = serialize(refresh)
        .catch(() => undefined)
        .finally(() => {
          if (isOpen) schedule();
        });
    }, refreshMs);
    timer.unref();
  }

  function serialize<T>(work: () => Promise<T>): Promise<T> {
    const done = recording.then(work, work);
    // The caller gets the error; the next one only waits.
    recording = done.catch(() => undefined);
    return done;
  }

  function requireOpen(): void {
    if (!isOpen) throw new ConfigError("The meter's store is not open: call start() first, and nothing after stop().");
  }

  return {
    isShared: true,
    async open() {
      books = new Books();
      texts.clear();
      await serialize(refresh);
      isOpen = true;
      schedule();
    },
    reserve(request) {
      requireOpen();
      return new Promise((resolve, reject) => {
        const queue = queues.get(request.idHash);
        if (queue) return void queue.push({ request, resolve, reject });
        const first = [{ request, resolve, reject }];
        queues.set(request.idHash, first);
        void drain(request.idHash, first);
      });
    },
    async hold() {
      throw new ConfigError('settle: "each" is for one process; gates that share a meter merge their debits');
    },
    release() {},
    record: (entry) => {
      requireOpen();
      return serialize(() => record(entry));
    },
    account: (idHash) => books.find(idHash),
    accounts: () => (isSender() ? books.accounts.values() : []),
    everyAccount: () => books.accounts.values(),
    reload: () => serialize(refresh),
    urgent: () => (isSender() ? [...texts.values()].flatMap(urgentIn) : []),
    async requestSettlement(idHash) {
      requireOpen();
      const account = books.find(idHash);
      if (isSender() || !account || account.pending === 0n) return;
      const key = keyOf(account.idHash);
      const expected = texts.get(key);
      const next = expected === undefined ? undefined : accountText(readAccount(expected), true);
      if (
        next !== undefined &&
        next !== expected &&
        (await shared.compareAndSwap([{ key, expected, next, listed: true }]))
      ) {
        learn(key, next);
      }
    },
    setSending(may) {
      maySend = may;
    },
    batches: () => (isSender() ? [...books.batches.values()] : []),
    recent: () => books.recent,
    nextBatch: () => books.nextBatch,
    totals() {
      let unsettled = 0n;
      for (const account of books.accounts.values()) unsettled += unsettledOf(account);
      const { settled, lost: given } = books.totals;
      return { charged: settled + given + unsettled, settled, lost: given };
    },
    async close() {
      isOpen = false;
      clearTimeout(timer);
      await refreshing;
      await serialize(releaseLease);
    },
  };
}

function urgentIn(text: string | undefined): Hex[] {
  return text?.startsWith('{"hurried":true') ? [readAccount(text).idHash] : [];
}

function lost(): Unavailable {
  return new Unavailable("Another gate sends the debits now.", { retryAfterSec: 2 });
}
