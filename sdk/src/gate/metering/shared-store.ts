/**
 * Keeps a meter's books in a store that several gates share. Every gate reserves, by compare-and-swap on the
 * subscription's own cell. One gate at a time, the holder of the sender's lease, seals, sends and resolves debits. The
 * rules are in books.ts.
 */
import { ConfigError } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type AskedChange, type Cells, memoryCells } from "../cells/cells";
import { emptyAccount, hasBalance, heldOf, type MeteredAccount, type Totals, unsettledOf } from "./books";
import { nextReceipt, type ReceiptCount } from "./receipt-count";
import { SharedSender } from "./shared-sender";
import {
  accountKey,
  accountText,
  contended,
  MAX_TRIES,
  readReceipt,
  receiptKey,
  receiptText,
  SharedView,
} from "./shared-view";
import {
  chargeHold,
  decideReservation,
  GONE,
  type HeldCharge,
  type HoldCharge,
  holdAhead,
  type MeterStore,
  type Reserved,
  releaseExpired,
} from "./store";

export interface SharedMeterOptions {
  /** how long the sender's lease outlives its last sign of life; default 15,000 */
  readonly leaseMs?: number;
  /** how often the others' changes are read; default 500 */
  readonly refreshMs?: number;
}

/** How long a running meter's reservation outlives its gate's last sign of life. */
const HOLD_MS = 60_000;

/** Keeps a meter's books in memory: for tests only, never where real money is charged. */
export const createMemoryMeterStore = (): MeterStore => sharedMeterStore(memoryCells());

/** How errors name it. */
export const METER_STORE = "The meter's store";

export function sharedMeterStore(shared: Cells, options: SharedMeterOptions = {}): MeterStore {
  const { leaseMs = 15_000, refreshMs = 500 } = options;
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
    get isSender() {
      return sender.isSender;
    },
    requireHealthy: () => shared.requireHealthy?.(),
    async open(place) {
      view.clear();
      await shared.checked(async () => {
        if (place !== undefined) await requirePlace(shared, place);
        await sender.refresh();
      });
      isOpen = true;
      schedule();
    },
    async reserve(request) {
      requireOpen();
      return reservations.change(request, (charged) => {
        const decision = decideReservation(charged.account, request);
        if (decision.kind !== "reserved") return decision;
        return { ...decision, receipt: charge(charged, request, decision.charged) };
      });
    },
    async holdAhead(request) {
      requireOpen();
      const { idHash } = request;
      return reservations.change({ idHash }, ({ account }, nowMs) => holdAhead(account, request, nowMs + HOLD_MS));
    },
    async chargeHold(request) {
      requireOpen();
      const { idHash } = request;
      const at = view.books.current(idHash);
      const answer = await reservations.chargeHold(request);
      if (answer.kind === "charged") return answer;
      // Its subscription may have a new idHash, which this gate has not read yet: the hold moved with it.
      await sender.refresh();
      return view.books.current(idHash) === at ? GONE : reservations.chargeHold(request);
    },
    record(entry) {
      requireOpen();
      return sender.record(entry);
    },
    replicated: () => shared.replicated(),
    account: (idHash) => view.books.find(idHash),
    accounts: () => (sender.isSender ? view.books.accounts.values() : []),
    everyAccount: () => view.books.accounts.values(),
    reload: () => sender.refresh(),
    urgent: () => (sender.isSender ? view.urgent() : []),
    async requestSettlement(idHash) {
      requireOpen();
      if (!sender.isSender) await markUrgent(view, idHash, true);
    },
    // Where it cannot be written, the debit is tried again soon.
    endRequest: (idHash) => markUrgent(view, idHash, false).catch(() => undefined),
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
      await shared.close();
    },
  };
}

/** Names the contract whose charges the store has. The first gate writes it. */
const PLACE_KEY = "place";

/**
 * Refuses the charges of another contract: the one gate that sends could not debit them.
 * @throws ConfigError, Unavailable
 */
async function requirePlace(shared: Cells, place: string): Promise<void> {
  let [known] = await shared.read([PLACE_KEY]);
  if (known === undefined) {
    await shared.swap([{ key: PLACE_KEY, expected: undefined, next: place }]);
    [known] = await shared.read([PLACE_KEY]);
  }
  if (known === place) return;
  throw new ConfigError(
    `meterStore has the charges of ${known}, and this gate meters on ${place}: give each a store with a prefix (Redis) or a space (PostgreSQL) of its own`,
  );
}

/**
 * Marks an account whose debit this gate waits for, or takes the mark away once its debit was tried. Where another gate
 * was quicker, the next call does so.
 */
async function markUrgent(view: SharedView, idHash: Hex, isUrgent: boolean): Promise<void> {
  const account = view.books.find(idHash);
  if (!account || account.pending === 0n) return;
  const key = accountKey(account.idHash);
  const expected = view.text(key);
  const next = accountText(account, isUrgent);
  if (expected !== undefined && next !== expected) await view.swap([{ key, expected, next, listed: true }]);
}

function totalsOf({ books }: SharedView): Totals {
  let unsettled = 0n;
  // What is reserved ahead is not charged yet.
  for (const account of books.accounts.values()) unsettled += unsettledOf(account) - heldOf(account);
  const { settled, lost } = books.totals;
  return { charged: settled + lost + unsettled, settled, lost };
}

/** What one change of a subscription may change together. */
interface Charged {
  readonly account: MeteredAccount;
  /** of the last receipt; read only where a charge gets one */
  receipt: ReceiptCount | undefined;
}

/** @returns the number of the charge's receipt, where it gets one */
function charge(
  charged: Charged,
  { facts, isReceipted }: Pick<HoldCharge, "facts" | "isReceipted">,
  amount: bigint,
): ReceiptCount | undefined {
  const { account } = charged;
  account.pending += amount;
  account.calls += 1;
  account.seenBlock = Math.max(account.seenBlock, facts.blockNumber);
  if (!isReceipted) return undefined;
  charged.receipt = nextReceipt(charged.receipt, facts, amount);
  return charged.receipt;
}

/** What became of a change: a reservation's decision, or what a hold has charged. */
type Answer = Reserved | HoldAnswer;

type HoldAnswer = HeldCharge & { readonly kind: "charged" | "gone" };

/** Changes an account that was just read; may run again on a newer one. */
type Change<A extends Answer> = (charged: Charged, nowMs: number) => A;

type ChangeOf = Pick<HoldCharge, "idHash" | "isReceipted">;

interface Waiting {
  readonly isReceipted: boolean;
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
  change<A extends Answer>({ idHash, isReceipted = false }: ChangeOf, change: Change<A>): Promise<A> {
    return new Promise<A>((resolve, reject) => {
      const waiting: Waiting = { isReceipted, change, resolve: (answer) => resolve(answer as A), reject };
      const queue = this.#queues.get(idHash);
      if (queue) return void queue.push(waiting);
      const first = [waiting];
      this.#queues.set(idHash, first);
      void this.#drain(idHash, first);
    });
  }

  /** @throws Unavailable */
  chargeHold(request: HoldCharge): Promise<HoldAnswer> {
    return this.change(request, (charged, nowMs) => {
      const used = chargeHold(charged.account, request, nowMs + HOLD_MS);
      if (used === undefined) return { kind: "gone", ...GONE };
      const receipt = used.added > 0n ? charge(charged, request, used.added) : undefined;
      return { kind: "charged", ...used, receipt };
    });
  }

  /** Releases what meters of gates that died have reserved, so that their subscriptions can be served again. */
  async releaseExpired(): Promise<void> {
    const nowMs = await this.#nowMs();
    const isExpired = ({ holds }: MeteredAccount) =>
      holds.some(({ untilMs }) => untilMs !== undefined && untilMs <= nowMs);
    for (const { idHash } of [...this.#view.books.accounts.values()].filter(isExpired)) {
      await this.change({ idHash }, () => RELEASED);
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
    const receipts = round.some(({ isReceipted }) => isReceipted) ? receiptKey(idHash) : undefined;
    let isCertain = false;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const key = accountKey(view.books.current(idHash));
      const keys = receipts === undefined ? [key] : [key, receipts];
      if (!keys.every((each) => view.has(each))) {
        await view.reread(keys);
        isCertain = true;
      }
      const expected = view.text(key);
      const account = view.account(key) ?? emptyAccount(view.books.current(idHash));
      const hasExpired = releaseExpired(account, nowMs);
      const before = receipts === undefined ? undefined : view.text(receipts);
      const charged: Charged = { account, receipt: before === undefined ? undefined : readReceipt(before) };
      const answers = round.map(({ change }) => change(charged, nowMs));
      const saturates = answers.some(({ kind }) => kind === "saturated");
      // A refusal must not rest on what another gate has changed meanwhile.
      if (!isCertain && !answers.every(isMade)) {
        await view.reread(keys);
        isCertain = true;
        continue;
      }
      if (!answers.some(isMade) && !saturates && !hasExpired) return answers;
      const next = accountText(account, saturates);
      const changes: AskedChange[] = [{ key, expected, next, listed: hasBalance(account) }];
      // Together: a charge and the number of its receipt are one change.
      if (receipts !== undefined && charged.receipt) {
        changes.push({ key: receipts, expected: before, next: receiptText(charged.receipt) });
      }
      const isSame = changes.every((change) => change.next === change.expected);
      if (isSame || (await view.swap(changes, account))) return answers;
      await view.reread(keys);
      isCertain = true;
    }
    throw contended();
  }
}

const RELEASED: Answer = { kind: "charged", ...GONE };

const isMade = ({ kind }: Answer): boolean => kind === "reserved" || kind === "charged";
