/**
 * Meters calls without a transaction for each: a call's cost is reserved against the allowance and made durable at
 * once, and debited on chain later, merged with others. Reads no HTTP and no chain itself.
 */
import type { AllowanceFacts, DebitResult, DebitSender, MeterStates } from "../../chain/debit-sender";
import type { Clock } from "../../protocol/clock";
import {
  AllowanceExhausted,
  ConfigError,
  type ErrorCode,
  InsufficientFunds,
  PaymentPending,
  SubscriptionNotActive,
  Unavailable,
} from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { remainingOf, unsettledOf } from "./books";
import { Loop } from "./loop";
import { type MeterReport, type UnsettledReport, unsettledReport } from "./reports";
import { limitsOf, type MeterLimits } from "./schedule";
import { type Call, Settler } from "./settler";
import type { MeterStore, Reserved, ReserveRequest } from "./store";

/** What a gate asks of metering. */
export interface MeterPort {
  /**
   * Proves that debits of each of these plans can be collected.
   * @throws ConfigError that names the setting, the problem and the remedy; Unavailable when the answer is unknown
   */
  prove(planIds: readonly Hex[]): Promise<void>;
  /**
   * Proves it of at least one of them; of none, that the key itself is accepted.
   * @throws ConfigError, Unavailable
   */
  proveAny(planIds: readonly Hex[]): Promise<void>;
  /** Returns whether this plan was proved collectable, and nothing has contradicted it since. */
  canCollect(planId: Hex): boolean;
  /** New blocks; `topics` are those indexed in Turnpike's logs, undefined when history was rewritten. */
  onBlocks(topics: ReadonlySet<string> | undefined): void;
  /** Opens the journal and resumes what a crash left. */
  start(): Promise<void>;
  /**
   * Sets an amount aside at once.
   * @param newest reads the facts from the chain's newest block, before anything is clipped or refused by `facts`
   * @throws AllowanceExhausted
   */
  reserve(
    idHash: Hex,
    amount: bigint,
    facts: AllowanceFacts,
    newest?: () => Promise<AllowanceFacts>,
  ): Promise<Deduction>;
  /** base units: cap - spent - reserved */
  remaining(idHash: Hex, facts: AllowanceFacts): bigint;
  /** an earlier debit failed for funds or approval */
  isBlocked(idHash: Hex): boolean;
  /** Retries its failed debit soon: the wallet may have been funded. */
  retryBlocked(idHash: Hex): void;
  /** as much is unsettled as the provider would risk */
  isSaturated(idHash: Hex): boolean;
  /** Throws once nothing can be reserved: the journal was lost. */
  requireHealthy?(): void;
  /** What is owed and not final yet, and what was lost. */
  unsettled(): UnsettledReport;
  /** Debits everything owed now, and waits for it. */
  flush(): Promise<void>;
  /** Debits what is owed, and ends. */
  stop(): Promise<void>;
}

export interface MeterOptions {
  readonly store: MeterStore;
  readonly sender: DebitSender;
  readonly states: MeterStates;
  /** chain time */
  readonly clock: Clock;
  readonly limits?: Partial<MeterLimits>;
  /** "merged" (default): debits are merged; "each": every call waits for a debit of its own */
  readonly settle?: "merged" | "each";
  readonly report?: MeterReport;
  /** called with the reason of every debit that was refused */
  readonly onRefused?: (reason: ErrorCode) => void;
  readonly monotonicMs?: () => number;
}

/** A charge; amounts in token base units. */
export interface Deduction {
  readonly charged: bigint;
  /** of the cap in this cycle, all reservations counted */
  readonly remaining: bigint;
  /** the cost was above what remained; only that was charged */
  readonly clipped: boolean;
}

export interface Meter {
  /** Opens the store and resumes what an earlier run left. @throws LedgerLocked, ConfigError */
  start(): Promise<void>;
  /**
   * Charges a call; resolves when the charge is durable.
   * @param amount base units; 0 charges nothing
   * @param newest reads the facts from the chain's newest block; asked before anything is clipped or refused by `facts`
   * @throws AllowanceExhausted nothing remains; InsufficientFunds blocked until a debit succeeds; Unavailable the
   * journal fails, or maxUnsettled stays reached; with "each" also SubscriptionNotActive, and PaymentPending when the
   * debit's outcome is not known in time
   */
  reserve(idHash: Hex, amount: bigint, facts: AllowanceFacts, newest?: ReadNewest): Promise<Deduction>;
  /** cap - spent - reserved, at least zero */
  remaining(idHash: Hex, facts: AllowanceFacts): bigint;
  /**
   * Returns whether a debit failed for lack of funds or approval: answer 402 InsufficientFunds before the handler runs.
   */
  isBlocked(idHash: Hex): boolean;
  /** Retries a debit that failed for lack of funds or approval within 2 seconds, where this process sends. */
  retryBlocked(idHash: Hex): void;
  /** Returns whether maxUnsettled is reached: answer 503 with Retry-After before the handler runs. */
  isSaturated(idHash: Hex): boolean;
  /** Throws once nothing can be reserved: the journal was lost. */
  requireHealthy(): void;
  /** Debits everything owed now; resolves when each debit is final, or its subscription cannot be debited. */
  flush(): Promise<void>;
  unsettled(): UnsettledReport;
  /**
   * Sets whether this process can collect debits: if not, it leaves sending to others; if again, it retries at once.
   */
  setCollecting(canCollect: boolean): void;
  /** Stops sending and closes the store; what is unsettled waits there for the next start. */
  stop(): Promise<void>;
}

/** @throws Unavailable, SubscriptionNotActive */
export type ReadNewest = () => Promise<AllowanceFacts>;

/** A request, and how to read its facts again. */
interface Asked extends ReserveRequest {
  readonly newest: ReadNewest | undefined;
}

/** How often the accounts are scanned for debits that are due by age. */
const TICK_MS = 250;

/** Rounds in a row that may fail before a flush gives up; the meter itself never does. */
const FLUSH_FAILURES = 3;

export function createMeter(options: MeterOptions): Meter {
  const { store, sender, states, clock, settle = "merged" } = options;
  const { report = () => undefined, onRefused = () => undefined, monotonicMs = () => performance.now() } = options;
  const limits = limitsOf(options.limits);
  const now = () => ({ ms: monotonicMs(), sec: chainTime(clock) });
  const settler = new Settler({ store, sender, states, limits, now, report, onRefused });
  const loop = new Loop({ round: () => settler.round(), restMs, report });
  let isStopping = false;

  function restMs(): number | undefined {
    if (store.batches().length > 0) return limits.pollMs;
    if (settler.calls.size > 0) return TICK_MS;
    for (const account of store.accounts()) if (account.pending > 0n) return TICK_MS;
    // This process may become the sender, and another gate may have charged.
    return store.isShared ? TICK_MS : undefined;
  }

  /** Retries the reservation until it fits under maxUnsettled, and requests settlement of the debits in its way. */
  async function untilCapacity(first: Asked, ask: (request: ReserveRequest) => Promise<Reserved>) {
    const untilMs = monotonicMs() + limits.waitMs;
    let request = first;
    for (;;) {
      const answer = await ask(request);
      if (answer.kind === "reserved") return { ...answer, block: request.facts.blockNumber };
      if (answer.kind === "short") {
        // A cap that was raised since the facts were read is not clipped to what it was.
        request = { ...request, facts: (await request.newest?.()) ?? request.facts, mayClip: true };
        continue;
      }
      if (answer.kind === "exhausted") throw new AllowanceExhausted();
      if (answer.kind === "blocked")
        throw new InsufficientFunds("A debit of this subscription could not be collected.");
      const leftMs = untilMs - monotonicMs();
      if (leftMs <= 0 || isStopping) throw saturated();
      requestSettlement(request.idHash);
      await atMost(leftMs, loop.nextRound());
      request = { ...request, mayClip: request.newest === undefined };
    }
  }

  function requestSettlement(idHash: Hex): void {
    const account = store.account(idHash);
    if (account !== undefined && account.pending > 0n && settler.timing(account.idHash).attempts === 0) {
      settler.forced.add(account.idHash);
    }
    if (store.batches().length === 0) loop.wake();
  }

  async function chargeMerged(request: Asked): Promise<Deduction> {
    const { charged, remaining } = await untilCapacity(request, (asked) => store.reserve(asked));
    const account = store.account(request.idHash);
    if (account !== undefined) {
      const timing = settler.timing(account.idHash);
      if (account.pending <= charged) timing.sinceMs = monotonicMs();
      timing.cycleEndSec = Math.max(timing.cycleEndSec, request.facts.paidThroughSec);
      const isFull = account.pending >= limits.settleAmount || account.calls >= limits.settleCalls;
      loop.wake(isFull && store.batches().length === 0 && timing.attempts === 0 ? 0 : TICK_MS);
    }
    return { charged, remaining, clipped: charged < request.amount };
  }

  async function chargeEach(request: Asked): Promise<Deduction> {
    const untilMs = monotonicMs() + limits.waitMs;
    for (;;) {
      const { charged, remaining, block } = await untilCapacity(request, (asked) => store.hold(asked));
      const result = await debitCall({ idHash: request.idHash, amount: charged, block }, untilMs - monotonicMs());
      if (result.kind === "settled") return { charged, remaining, clipped: charged < request.amount };
      if (result.kind === "failed" && !isOwnFault(result.reason)) throw refusalOf(result.reason);
      if (monotonicMs() >= untilMs || isStopping) throw saturated();
    }
  }

  async function debitCall(held: Pick<Call, "idHash" | "amount" | "block">, waitMs: number): Promise<DebitResult> {
    let settleCall: (result: DebitResult) => void = () => undefined;
    const settled = new Promise<DebitResult>((resolve) => {
      settleCall = resolve;
    });
    const call: Call = { ...held, sealed: false, settle: settleCall };
    settler.calls.add(call);
    loop.wake();
    const result = await atMost(waitMs, Promise.race([settled, stopped]));
    if (result !== undefined && result !== "stopped") return result;
    if (call.sealed) {
      throw new PaymentPending("The debit was sent, its outcome is not known yet.", { retryAfterSec: 5 });
    }
    if (settler.calls.delete(call)) store.release(held.idHash, held.amount);
    throw saturated();
  }

  /** Flushes a shared store, whichever gate sends: until nothing is owed that could be debited. */
  async function flushShared(): Promise<void> {
    const untilMs = monotonicMs() + limits.waitMs;
    for (;;) {
      // What another gate has reserved is owed too, and shows here only after a reload.
      await store.reload();
      const owing = [...store.everyAccount()].filter((account) => unsettledOf(account) > 0n && !account.blocked);
      if (owing.length === 0) return;
      if (isStopping || monotonicMs() > untilMs) throw saturated();
      for (const { idHash } of owing) {
        settler.forced.add(idHash);
        await store.requestSettlement(idHash);
      }
      await atMost(TICK_MS, loop.nextRound());
    }
  }

  let resolveStopped: () => void = () => undefined;
  const stopped = new Promise<"stopped">((resolve) => {
    resolveStopped = () => resolve("stopped");
  });

  return {
    async start() {
      await store.open();
      loop.start();
    },
    requireHealthy: () => store.requireHealthy?.(),
    async reserve(idHash, amount, facts, newest) {
      if (amount < 0n) throw new ConfigError("deductAllowance(amount): the amount is negative.");
      if (amount === 0n) return { charged: 0n, remaining: remainingOf(store.account(idHash), facts), clipped: false };
      const mayClip = newest === undefined;
      const request: Asked = { idHash, amount, facts, mayClip, newest, maxUnsettled: limits.maxUnsettled };
      return settle === "each" ? chargeEach(request) : chargeMerged(request);
    },
    remaining: (idHash, facts) => remainingOf(store.account(idHash), facts),
    isBlocked: (idHash) => store.account(idHash)?.blocked !== undefined,
    retryBlocked(idHash) {
      settler.retryBlocked(idHash);
      loop.wake(TICK_MS);
    },
    isSaturated(idHash) {
      const account = store.account(idHash);
      return account !== undefined && unsettledOf(account) >= limits.maxUnsettled;
    },
    async flush() {
      if (store.isShared) return flushShared();
      for (const account of store.accounts()) if (account.pending > 0n) settler.forced.add(account.idHash);
      // The loop's own timers let the process exit; a process that waits for a flush should not.
      const stayAlive = setInterval(() => undefined, 60_000);
      try {
        while (!settler.isIdle) {
          if (isStopping) throw new Unavailable("The meter was stopped before everything was settled.");
          const ended = loop.nextRound();
          loop.wake(store.batches().length > 0 ? limits.pollMs : 0);
          await ended;
          if (loop.failures >= FLUSH_FAILURES) throw loop.lastError;
        }
      } finally {
        clearInterval(stayAlive);
      }
    },
    unsettled: () => unsettledReport(store),
    setCollecting(canCollect) {
      store.setSending(canCollect);
      if (!canCollect) return;
      settler.retrySoon();
      loop.retryNow();
    },
    async stop() {
      isStopping = true;
      resolveStopped();
      await loop.stop();
      await store.close();
    },
  };
}

const isOwnFault = (reason: ErrorCode): boolean => reason === "StaleDebit" || reason === "InsufficientGas";

function refusalOf(reason: ErrorCode): Error {
  if (reason === "InsufficientFunds" || reason === "InsufficientApproval") return new InsufficientFunds();
  if (reason === "AllowanceExhausted") return new AllowanceExhausted();
  if (reason === "SubscriptionNotActive") return new SubscriptionNotActive();
  return new Unavailable(`The debit was refused (${reason}).`, { reason, retryAfterSec: 5 });
}

function saturated(): Unavailable {
  return new Unavailable("Earlier usage of this subscription is still being settled.", { retryAfterSec: 2 });
}

/** Returns the chain's time, where it is known: without it nothing is due because of a cycle's end. */
function chainTime(clock: Clock): number | undefined {
  try {
    return clock.nowSec();
  } catch {
    return undefined;
  }
}

async function atMost<T>(waitMs: number, answer: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), Math.max(0, waitMs));
    timer.unref();
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
