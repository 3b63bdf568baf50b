/**
 * Keeps a meter's books in a store that several gates share. Every gate reserves, by compare-and-swap on the
 * subscription's own cell. One gate at a time, the holder of the sender's lease, seals, sends and resolves debits. The
 * rules are in books.ts.
 */
import { ConfigError } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type AtomicStore, guardCells } from "../stores/atomic-store";
import { emptyAccount, hasBalance, heldOf, type MeteredAccount, type Totals, unsettledOf } from "./books";
import { chargeHold, type HoldCharge, holdAhead, releaseExpired } from "./holds";
import { decideReservation, type Reserved } from "./reservation";
import { SharedSender } from "./shared-sender";
import { accountKey, accountText, contended, MAX_TRIES, readAccount, SharedView } from "./shared-view";
import type { MeterStore } from "./store";

export interface SharedMeterOptions {
  /** how long the sender's lease outlives its last sign of life; default 15,000 */
  readonly leaseMs?: number;
  /** how often the others' changes are read; default 500 */
  readonly refreshMs?: number;
  /** how long a running meter's reservation outlives its gate's last sign of life; default 60,000 */
  readonly holdMs?: number;
}

export function sharedMeterStore(cells: AtomicStore, options: SharedMeterOptions = {}): MeterStore {
  const { leaseMs = 15_000, refreshMs = 500, holdMs = 60_000 } = options;
  const shared = guardCells(cells, { what: "The meter's store" });
  const view = new SharedView(shared);
  const reservations = new SharedReservations(view, () => shared.nowMs());
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
        .then(() => reservations.releaseExpired())
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
    async reserve(request) {
      requireOpen();
      return reservations.change(request.idHash, (account) => {
        const decision = decideReservation(account, request);
        if (decision.kind === "reserved") charge(account, decision.charged, request.facts.blockNumber);
        return decision;
      });
    },
    async holdAhead(request) {
      requireOpen();
      return reservations.change(request.idHash, (account, nowMs) => holdAhead(account, request, nowMs + holdMs));
    },
    async chargeHold(request) {
      requireOpen();
      const { idHash } = request;
      const at = view.books.current(idHash);
      const answer = await reservations.chargeHold(request, holdMs);
      if (answer.kind === "charged") return answer.charged;
      // Its subscription may have a new idHash, which this gate has not read yet: the hold moved with it.
      await sender.refresh();
      return view.books.current(idHash) === at ? 0n : (await reservations.chargeHold(request, holdMs)).charged;
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
  // What is reserved ahead is not charged yet.
  for (const account of books.accounts.values()) unsettled += unsettledOf(account) - heldOf(account);
  const { settled, lost } = books.totals;
  return { charged: settled + lost + unsettled, settled, lost };
}

function charge(account: MeteredAccount, amount: bigint, block: number): void {
  account.pending += amount;
  account.calls += 1;
  account.seenBlock = Math.max(account.seenBlock, block);
}

/** What became of a change: a reservation's decision, or what a hold has charged. */
type Answer = Reserved | HoldAnswer;

/** `charged`: base units since the hold began */
type HoldAnswer = { readonly kind: "charged" | "gone"; readonly charged: bigint };

/** Changes an account that was just read; may run again on a newer one. */
type Change<A extends Answer> = (account: MeteredAccount, nowMs: number) => A;

interface Waiting {
  readonly change: Change<Answer>;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Changes accounts by compare-and-swap. Calls of one subscription that arrive during a swap share the next one. */
class SharedReservations {
  readonly #view: SharedView;
  readonly #nowMs: () => Promise<number>;
  readonly #queues = new Map<Hex, Waiting[]>();

  /** @param nowMs the store's clock */
  constructor(view: SharedView, nowMs: () => Promise<number>) {
    this.#view = view;
    this.#nowMs = nowMs;
  }

  /** @throws Unavailable */
  change<A extends Answer>(idHash: Hex, change: Change<A>): Promise<A> {
    return new Promise<A>((resolve, reject) => {
      const waiting: Waiting = { change, resolve: (answer) => resolve(answer as A), reject };
      const queue = this.#queues.get(idHash);
      if (queue) return void queue.push(waiting);
      const first = [waiting];
      this.#queues.set(idHash, first);
      void this.#drain(idHash, first);
    });
  }

  /** @throws Unavailable */
  chargeHold(request: HoldCharge, holdMs: number): Promise<HoldAnswer> {
    return this.change(request.idHash, (account, nowMs) => {
      const used = chargeHold(account, request, nowMs + holdMs);
      if (used === undefined) return { kind: "gone", charged: 0n };
      if (used.added > 0n) charge(account, used.added, request.block);
      return { kind: "charged", charged: used.charged };
    });
  }

  /** Releases what meters of gates that died have reserved, so that their subscriptions can be served again. */
  async releaseExpired(): Promise<void> {
    const nowMs = await this.#nowMs();
    const isExpired = ({ holds }: MeteredAccount) =>
      holds.some(({ untilMs }) => untilMs !== undefined && untilMs <= nowMs);
    for (const { idHash } of [...this.#view.books.accounts.values()].filter(isExpired)) {
      await this.change(idHash, () => RELEASED);
    }
  }

  async #drain(idHash: Hex, queue: Waiting[]): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (queue.length > 0) {
      const round = queue.splice(0);
      try {
        const answers = await this.#changeTogether(idHash, round);
        round.forEach(({ resolve }, i) => void resolve(answers[i] as Answer));
      } catch (error) {
        for (const { reject } of round) reject(error);
      }
    }
    this.#queues.delete(idHash);
  }

  async #changeTogether(idHash: Hex, round: readonly Waiting[]): Promise<Answer[]> {
    const view = this.#view;
    const nowMs = await this.#nowMs();
    let isCertain = false;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const key = accountKey(view.books.current(idHash));
      if (!view.has(key)) {
        await view.reread([key]);
        isCertain = true;
      }
      const expected = view.text(key);
      const account = expected === undefined ? emptyAccount(view.books.current(idHash)) : readAccount(expected);
      const hasExpired = releaseExpired(account, nowMs);
      const answers = round.map(({ change }) => change(account, nowMs));
      const saturates = answers.some(({ kind }) => kind === "saturated");
      // A refusal must not rest on what another gate has changed meanwhile.
      if (!isCertain && !answers.every(isMade)) {
        await view.reread([key]);
        isCertain = true;
        continue;
      }
      if (!answers.some(isMade) && !saturates && !hasExpired) return answers;
      const next = accountText(account, saturates);
      const listed = hasBalance(account);
      if (next === expected || (await view.swap([{ key, expected, next, listed }]))) return answers;
      await view.reread([key]);
      isCertain = true;
    }
    throw contended();
  }
}

const RELEASED: Answer = { kind: "charged", charged: 0n };

const isMade = ({ kind }: Answer): boolean => kind === "reserved" || kind === "charged";
