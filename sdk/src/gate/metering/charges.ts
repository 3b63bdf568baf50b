/** Charges calls: reserves under what may be unsettled, and waits where earlier debits are in the way. */
import type { AllowanceFacts } from "../../chain/debit-sender";
import { AllowanceExhausted, InsufficientFunds, Unavailable } from "../../protocol/errors";
import { atMost } from "../../protocol/exchange";
import type { Hex } from "../../protocol/hex";
import { heldOf, type MeteredAccount, unsettledOf } from "./books";
import type { Loop } from "./loop";
import type { ReceiptCount } from "./receipt-count";
import type { MeterLimits } from "./schedule";
import type { Settler } from "./settler";
import {
  type HeldCharge,
  type HoldCharge,
  type HoldRequest,
  heldByOthers,
  type MeterStore,
  type Reserved,
  type ReserveRequest,
} from "./store";

/** A charge; amounts in token base units. */
export interface Deduction {
  readonly charged: bigint;
  /** of the cap in this cycle, all reservations counted */
  readonly remaining: bigint;
  /** the cost was above what remained; only that was charged */
  readonly clipped: boolean;
}

/** A charge, and the number of its receipt where it gets one. */
export interface ReceiptedDeduction extends Deduction {
  readonly receipt?: ReceiptCount | undefined;
}

/** @throws Unavailable, SubscriptionNotActive */
export type ReadNewest = () => Promise<AllowanceFacts>;

/** A request, and how to read its facts again. */
export type ChargeRequest<Request extends ReserveRequest = ReserveRequest> = Request & {
  readonly newest: ReadNewest | undefined;
};

export interface ChargesOptions {
  readonly store: MeterStore;
  readonly settler: Settler;
  readonly loop: Loop;
  readonly limits: MeterLimits;
  readonly monotonicMs: () => number;
}

/** How often the accounts are scanned for debits that are due by age. */
export const TICK_MS = 250;

/** Rounds in a row that may fail before a flush gives up; the meter itself never does. */
const FLUSH_FAILURES = 3;

export class Charges {
  readonly #options: ChargesOptions;
  #isStopping = false;

  constructor(options: ChargesOptions) {
    this.#options = options;
  }

  /** Charges a call; its debit is merged with others. */
  async charge(request: ChargeRequest): Promise<ReceiptedDeduction> {
    const { store } = this.#options;
    const { charged, remaining, receipt } = await this.#untilCapacity(request, (asked) => store.reserve(asked));
    const isFirst = (store.account(request.idHash)?.pending ?? 0n) <= charged;
    this.#schedule(request.idHash, isFirst, request.facts.paidThroughSec);
    return { charged, remaining, clipped: charged < request.amount, ...(receipt && { receipt }) };
  }

  /** Holds an amount ahead of delivery. @returns base units held, and what remains beside them */
  async holdAhead(request: ChargeRequest<HoldRequest>): Promise<{ readonly held: bigint; readonly remaining: bigint }> {
    const { store } = this.#options;
    const { charged: held, remaining } = await this.#untilCapacity(request, (asked) => store.holdAhead(asked));
    return { held, remaining };
  }

  /** Charges what was used of a hold. */
  async chargeHold(request: HoldCharge): Promise<HeldCharge> {
    const { store } = this.#options;
    // What a running meter has charged before keeps its age.
    const isFirst = (store.account(request.idHash)?.pending ?? 0n) === 0n;
    const charged = await store.chargeHold(request);
    this.#schedule(request.idHash, isFirst, request.facts.paidThroughSec);
    return charged;
  }

  /** Has the debit of a new charge considered. @param isFirst nothing was owed before it */
  #schedule(idHash: Hex, isFirst: boolean, paidThroughSec: number): void {
    const { store, settler, loop, limits, monotonicMs } = this.#options;
    const account = store.account(idHash);
    if (account === undefined) return;
    const timing = settler.retries.timing(account.idHash);
    if (isFirst) timing.sinceMs = monotonicMs();
    timing.cycleEndSec = Math.max(timing.cycleEndSec, paidThroughSec);
    if (account.blocked) this.#retryBlocked(account.idHash);
    const isFull = account.pending >= limits.settleAmount || account.calls >= limits.settleCalls;
    loop.wake(isFull && store.batches().length === 0 && timing.attempts === 0 ? 0 : TICK_MS);
  }

  /** Has the debits of a subscription tried again that the chain has again, whichever gate sends. */
  #retryBlocked(idHash: Hex): void {
    const { store, settler } = this.#options;
    settler.retries.retryBlocked(idHash);
    // A store that fails has refused the charge already, or refuses the next one.
    void store.requestSettlement(idHash).catch(() => undefined);
  }

  /** Debits everything owed now, and waits for it. */
  async flush(): Promise<void> {
    const { store } = this.#options;
    // The loop's own timers let the process exit; a process that waits for a flush should not.
    const stayAlive = setInterval(() => undefined, 60_000);
    try {
      for (let isDone = false; !isDone; ) {
        // What another gate has reserved is owed too, and shows here only after a reload.
        await store.reload();
        isDone = await (store.isSender ? this.#flushOwn() : this.#flushOthers());
      }
    } finally {
      clearInterval(stayAlive);
    }
  }

  /** Ends every wait. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Retries the reservation until it fits under maxUnsettled, and requests settlement of the debits in its way. */
  async #untilCapacity<Request extends ReserveRequest>(
    first: ChargeRequest<Request>,
    ask: (request: Request) => Promise<Reserved>,
  ) {
    const { loop, limits, monotonicMs } = this.#options;
    const untilMs = monotonicMs() + limits.waitMs;
    let request = first;
    for (;;) {
      const answer = await ask(request);
      if (answer.kind === "reserved") return answer;
      if (answer.kind === "short") {
        // A cap that was raised since the facts were read is not clipped to what it was.
        request = { ...request, facts: (await request.newest?.()) ?? request.facts, mayClip: true };
        continue;
      }
      if (answer.kind === "exhausted") throw new AllowanceExhausted();
      if (answer.kind === "contended") throw heldByOthers();
      if (answer.kind === "blocked")
        throw new InsufficientFunds("A debit of this subscription could not be collected.");
      const leftMs = untilMs - monotonicMs();
      if (leftMs <= 0 || this.#isStopping) throw saturated();
      this.#requestSettlement(request.idHash);
      await atMost(leftMs, loop.nextRound(), nothing);
      request = { ...request, mayClip: request.newest === undefined };
    }
  }

  #requestSettlement(idHash: Hex): void {
    const { store, settler, loop } = this.#options;
    const account = store.account(idHash);
    if (account !== undefined && account.pending > 0n && settler.retries.timing(account.idHash).attempts === 0) {
      settler.retries.forced.add(account.idHash);
    }
    if (store.batches().length === 0) loop.wake();
  }

  /**
   * @returns false where another gate has become the sender
   * @throws Unavailable when no debit has become final for `waitMs`
   */
  async #flushOwn(): Promise<boolean> {
    const { store, settler, loop, limits, monotonicMs } = this.#options;
    const finalNow = (): bigint => {
      const { settled, lost } = store.totals();
      return settled + lost;
    };
    for (const account of store.accounts()) if (account.pending > 0n) settler.retries.forced.add(account.idHash);
    let progress = { final: finalNow(), atMs: monotonicMs() };
    while (store.isSender && !settler.isIdle) {
      if (this.#isStopping) throw new Unavailable("The meter was stopped before everything was settled.");
      const final = finalNow();
      if (final !== progress.final) progress = { final, atMs: monotonicMs() };
      const leftMs = progress.atMs + limits.waitMs - monotonicMs();
      if (leftMs <= 0) throw saturated();
      const ended = loop.nextRound();
      loop.wake(store.batches().length > 0 ? limits.pollMs : 0);
      await atMost(leftMs, ended, nothing);
      if (loop.failures >= FLUSH_FAILURES) throw loop.lastError;
    }
    return store.isSender;
  }

  /**
   * Has another gate debit until nothing is owed that could be debited.
   * @returns false where this gate has become the sender
   */
  async #flushOthers(): Promise<boolean> {
    const { store, settler, loop, limits, monotonicMs } = this.#options;
    const startMs = monotonicMs();
    const untilMs = startMs + limits.waitMs;
    const isTried = (idHash: Hex): boolean => settler.retries.timing(idHash).inactiveAtMs >= startMs;
    while (!store.isSender) {
      const owing = [...store.everyAccount()].filter(
        (account) => isOwing(account) && !account.blocked && !isTried(account.idHash),
      );
      if (owing.length === 0) return true;
      if (this.#isStopping || monotonicMs() > untilMs) throw saturated();
      for (const { idHash } of owing) {
        settler.retries.forced.add(idHash);
        await store.requestSettlement(idHash);
      }
      await atMost(TICK_MS, loop.nextRound(), nothing);
      await store.reload();
    }
    return false;
  }
}

const nothing = (): undefined => undefined;

/** Returns whether it owes what can be debited now: what running meters have reserved ahead may never be owed. */
const isOwing = (account: Readonly<MeteredAccount>): boolean => unsettledOf(account) > heldOf(account);

function saturated(): Unavailable {
  return new Unavailable("Earlier usage of this subscription is still being settled.", { retryAfterSec: 2 });
}
