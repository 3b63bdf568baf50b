/**
 * Keeps a meter's books in a store that several gates share. Every gate reserves, by compare-and-swap on the
 * subscription's own cell. One gate at a time, the holder of the sender's lease, seals, sends and resolves debits. The
 * rules are in books.ts.
 */
import { ConfigError } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type AtomicStore, guardCells } from "../stores/atomic-store";
import { emptyAccount, type Totals, unsettledOf } from "./books";
import { SharedSender } from "./shared-sender";
import { accountKey, accountText, contended, MAX_TRIES, readAccount, SharedView } from "./shared-view";
import { decideReservation, type MeterStore, type Reserved, type ReserveRequest } from "./store";

export interface SharedMeterOptions {
  /** how long the sender's lease outlives its last sign of life; default 15,000 */
  readonly leaseMs?: number;
  /** how often the others' changes are read; default 500 */
  readonly refreshMs?: number;
}

export function sharedMeterStore(cells: AtomicStore, options: SharedMeterOptions = {}): MeterStore {
  const { leaseMs = 15_000, refreshMs = 500 } = options;
  const shared = guardCells(cells, { what: "The meter's store" });
  const view = new SharedView(shared);
  const reservations = new SharedReservations(view);
  const sender = new SharedSender(shared, view, leaseMs);
  let timer: NodeJS.Timeout | undefined;
  let refreshing: Promise<void> | undefined;
  let isOpen = false;

  function schedule(): void {
    timer = setTimeout(() => {
      // After an entry that is being recorded: both change the sender's cell. A failure is retried soon and harmless
      // meanwhile: the store itself decides each reservation and each entry, or refuses it.
      refreshing = sender
        .refresh()
        .catch(() => undefined)
        .finally(() => {
          if (isOpen) schedule();
        });
    }, refreshMs);
    timer.unref();
  }

  function requireOpen(): void {
    if (!isOpen) throw new ConfigError("The meter's store is not open: call start() first, and nothing after stop().");
  }

  return {
    isShared: true,
    async open() {
      view.clear();
      await sender.refresh();
      isOpen = true;
      schedule();
    },
    reserve(request) {
      requireOpen();
      return reservations.reserve(request);
    },
    async hold() {
      throw new ConfigError('settle: "each" is for one process; gates that share a meter merge their debits');
    },
    release() {},
    record(entry) {
      requireOpen();
      return sender.record(entry);
    },
    account: (idHash) => view.books.find(idHash),
    accounts: () => (sender.isSender ? view.books.accounts.values() : []),
    everyAccount: () => view.books.accounts.values(),
    reload: () => sender.refresh(),
    urgent: () => (sender.isSender ? view.urgent() : []),
    async requestSettlement(idHash) {
      requireOpen();
      if (!sender.isSender) await markUrgent(view, idHash);
    },
    setSending: (may) => sender.setSending(may),
    batches: () => (sender.isSender ? [...view.books.batches.values()] : []),
    recent: () => view.books.recent,
    nextBatch: () => view.books.nextBatch,
    totals: () => totalsOf(view),
    async close() {
      isOpen = false;
      clearTimeout(timer);
      await refreshing;
      await sender.release();
    },
  };
}

/** Marks an account whose debit this gate waits for; where another gate was quicker, the next call marks it. */
async function markUrgent(view: SharedView, idHash: Hex): Promise<void> {
  const account = view.books.find(idHash);
  if (!account || account.pending === 0n) return;
  const key = accountKey(account.idHash);
  const expected = view.text(key);
  const next = expected === undefined ? undefined : accountText(readAccount(expected), true);
  if (next !== undefined && next !== expected) await view.swap([{ key, expected, next, listed: true }]);
}

function totalsOf({ books }: SharedView): Totals {
  let unsettled = 0n;
  for (const account of books.accounts.values()) unsettled += unsettledOf(account);
  const { settled, lost } = books.totals;
  return { charged: settled + lost + unsettled, settled, lost };
}

interface Waiting {
  readonly request: ReserveRequest;
  readonly resolve: (reserved: Reserved) => void;
  readonly reject: (error: unknown) => void;
}

/** Reserves by compare-and-swap. Calls of one subscription that arrive during a swap share the next one. */
class SharedReservations {
  readonly #view: SharedView;
  readonly #queues = new Map<Hex, Waiting[]>();

  constructor(view: SharedView) {
    this.#view = view;
  }

  /** @throws Unavailable */
  reserve(request: ReserveRequest): Promise<Reserved> {
    return new Promise((resolve, reject) => {
      const queue = this.#queues.get(request.idHash);
      if (queue) return void queue.push({ request, resolve, reject });
      const first = [{ request, resolve, reject }];
      this.#queues.set(request.idHash, first);
      void this.#drain(request.idHash, first);
    });
  }

  async #drain(idHash: Hex, queue: Waiting[]): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (queue.length > 0) {
      const round = queue.splice(0);
      try {
        const answers = await this.#reserveTogether(idHash, round);
        round.forEach(({ resolve }, i) => void resolve(answers[i] as Reserved));
      } catch (error) {
        for (const { reject } of round) reject(error);
      }
    }
    this.#queues.delete(idHash);
  }

  async #reserveTogether(idHash: Hex, round: readonly Waiting[]): Promise<Reserved[]> {
    const view = this.#view;
    let isCertain = false;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const key = accountKey(view.books.current(idHash));
      if (!view.has(key)) {
        await view.reread([key]);
        isCertain = true;
      }
      const expected = view.text(key);
      const account = expected === undefined ? emptyAccount(view.books.current(idHash)) : readAccount(expected);
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
        await view.reread([key]);
        isCertain = true;
        continue;
      }
      if (answers.every(({ kind }) => kind !== "reserved") && !saturates) return answers;
      const next = accountText(account, saturates);
      if (next === expected || (await view.swap([{ key, expected, next, listed: true }]))) return answers;
      await view.reread([key]);
      isCertain = true;
    }
    throw contended();
  }
}
