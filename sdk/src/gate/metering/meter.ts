/**
 * Meters calls without a transaction for each: a call's cost is reserved against the allowance and made durable at
 * once, and debited on chain later, merged with others. Reads no HTTP and no chain itself.
 */
import type { AllowanceFacts, DebitSender, MeterStates } from "../../chain/debit-sender";
import { ConfigError, type ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { Clock } from "../../protocol/periods";
import { isFundsReason, remainingOf, unsettledOf } from "./books";
import { Charges, type ReadNewest, type ReceiptedDeduction, TICK_MS } from "./charges";
import { Loop } from "./loop";
import { limitsOf, type MeterLimits } from "./schedule";
import { Settler } from "./settler";
import {
  type HeldCharge,
  isHeldByOthers,
  type MeterReport,
  type MeterStore,
  type UnsettledReport,
  type UnstatedBasis,
  unsettledReport,
} from "./store";
import type { ChargeHold, HoldAhead } from "./usage-meter";

/** Whether the debits of plans can be collected. */
export interface CollectionProof {
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
}

/** Charges subscriptions, and judges what they may still be charged. */
export interface Charging {
  /**
   * Charges a call; resolves when the charge is durable.
   * @param amount base units; 0 charges nothing
   * @param newest reads the facts from the chain's newest block; asked before anything is clipped or refused by `facts`
   * @throws AllowanceExhausted nothing remains; InsufficientFunds blocked until a debit succeeds; Unavailable the
   * store fails, or maxUnsettled stays reached
   */
  reserve(idHash: Hex, amount: bigint, facts: AllowanceFacts, newest?: ReadNewest): Promise<ReceiptedDeduction>;
  /**
   * Holds an amount ahead of delivery, until `chargeHold` releases it: at least `need`, clipped where less remains.
   * @throws AllowanceExhausted nothing remains; InsufficientFunds, Unavailable
   */
  holdAhead(hold: HoldParts, newest?: ReadNewest): Promise<{ readonly held: bigint; readonly remaining: bigint }>;
  /**
   * Charges what was used of a hold, and renews it or releases the rest; resolves when the charge is durable.
   * @throws Unavailable
   */
  chargeHold(charge: ChargeParts): Promise<HeldCharge>;
  /** Reports an answer whose usage was not stated. */
  noteUnstated(idHash: Hex, basis: UnstatedBasis): void;
  /** Returns cap - spent - reserved, at least zero; base units. */
  remaining(idHash: Hex, facts: AllowanceFacts): bigint;
  /** Returns whether running answers hold some of the cap, and may release it: answer 503 where nothing else remains. */
  isHeld(idHash: Hex): boolean;
  /**
   * Returns whether a debit failed for lack of funds or approval: answer 402 InsufficientFunds before the handler runs.
   */
  isBlocked(idHash: Hex): boolean;
  /** Retries a debit that failed for lack of funds or approval within 2 seconds, where this process sends. */
  retryBlocked(idHash: Hex): void;
  /** Returns whether maxUnsettled is reached: answer 503 with Retry-After before the handler runs. */
  isSaturated(idHash: Hex): boolean;
}

/** Runs a meter from its start to its stop. */
export interface MeterLife {
  /** Opens the store and resumes what an earlier run left. @throws LedgerLocked, ConfigError */
  start(): Promise<void>;
  /** Throws once nothing can be reserved: the store has failed. */
  requireHealthy?(): void;
  /**
   * Retries what new blocks may have made possible.
   * @param topics those indexed in Turnpike's logs, undefined when history was rewritten
   */
  onBlocks(topics: ReadonlySet<string> | undefined): void;
  /** Registers work for `stop`, before the store closes. @returns how to withdraw it */
  onStop(work: () => Promise<unknown>): () => void;
  /**
   * Debits everything owed now; resolves when each debit is final, or its subscription cannot be debited.
   * @throws Unavailable when no debit has become final for `waitMs`; the meter goes on by itself
   */
  flush(): Promise<void>;
  /** Returns what is owed and not final yet, and what was lost. */
  unsettled(): UnsettledReport;
  /** Stops sending and closes the store; what is unsettled waits there for the next start. */
  stop(): Promise<void>;
}

/** What a gate asks of metering. */
export interface MeterPort extends CollectionProof, Charging, MeterLife {}

/** The subscription of a hold, and the facts that it is judged by. */
export interface HeldFor {
  readonly idHash: Hex;
  readonly facts: AllowanceFacts;
}

/** What to hold. */
export type HoldParts = HoldAhead & HeldFor;

/** What to charge of a hold. */
export type ChargeParts = Omit<ChargeHold, "usage"> & HeldFor;

export interface MeterOptions {
  readonly store: MeterStore;
  /** the contract whose charges these are, with its chain; a store that others share is of one */
  readonly place?: string;
  readonly sender: DebitSender;
  readonly states: MeterStates;
  /** chain time */
  readonly clock: Clock;
  readonly limits?: Partial<MeterLimits>;
  readonly report?: MeterReport;
  /** whether to number a receipt for each charge; default false */
  readonly receipts?: boolean;
  /** called with the reason of every debit that was refused */
  readonly onRefused?: (reason: ErrorCode) => void;
  readonly monotonicMs?: () => number;
}

export interface Meter extends Charging, MeterLife {
  /**
   * Sets whether this process can collect debits: if not, it leaves sending to others; if again, it retries at once.
   */
  setCollecting(canCollect: boolean): void;
}

export function createMeter(options: MeterOptions): Meter {
  const { store, sender, states, clock, receipts: isReceipted = false } = options;
  const { report = () => undefined, onRefused = () => undefined, monotonicMs = () => performance.now() } = options;
  const limits = limitsOf(options.limits);
  const now = () => ({ ms: monotonicMs(), sec: chainTimeSec(clock) });
  const settler = new Settler({ store, sender, states, limits, now, report, onRefused });
  const loop = new Loop({ round: () => settler.round(), restMs, report });
  const lastWork = new Set<() => Promise<unknown>>();
  const charges = new Charges({ store, settler, loop, limits, monotonicMs });

  function restMs(): number {
    if (store.batches().length > 0) return limits.pollMs;
    for (const account of store.accounts()) if (account.pending > 0n) return TICK_MS;
    // This process may become the sender, and another gate may have charged.
    return TICK_MS;
  }

  return {
    async start() {
      await store.open(options.place);
      loop.start();
    },
    requireHealthy: () => store.requireHealthy?.(),
    async reserve(idHash, amount, facts, newest) {
      if (amount < 0n) throw new ConfigError("deductAllowance(amount): the amount is negative.");
      if (amount === 0n) return { charged: 0n, remaining: remainingOf(store.account(idHash), facts), clipped: false };
      const mayClip = newest === undefined;
      const { maxUnsettled } = limits;
      return charges.charge({ idHash, amount, facts, mayClip, newest, maxUnsettled, isReceipted });
    },
    async holdAhead({ idHash, facts, hold: name, need: amount, ahead, own = [] }, newest) {
      const mayClip = newest === undefined;
      const { maxUnsettled } = limits;
      return charges.holdAhead({ idHash, facts, name, amount, ahead, own, mayClip, newest, maxUnsettled });
    },
    chargeHold: ({ idHash, facts, hold: name, total, release }) =>
      charges.chargeHold({ idHash, name, total, release, facts, isReceipted }),
    noteUnstated: (idHash, basis) => report({ kind: "unstated", idHash, basis }),
    onStop(work) {
      lastWork.add(work);
      return () => lastWork.delete(work);
    },
    remaining: (idHash, facts) => remainingOf(store.account(idHash), facts),
    isHeld: (idHash) => isHeldByOthers(store.account(idHash)),
    isBlocked: (idHash) => isFundsReason(store.account(idHash)?.blocked),
    retryBlocked(idHash) {
      settler.retries.retryBlocked(idHash);
      loop.wake(TICK_MS);
    },
    onBlocks(topics) {
      if (settler.retries.retryRemoved(topics)) loop.wake(TICK_MS);
    },
    isSaturated(idHash) {
      const account = store.account(idHash);
      return account !== undefined && unsettledOf(account) >= limits.maxUnsettled;
    },
    flush: () => charges.flush(),
    unsettled: () => unsettledReport(store),
    setCollecting(canCollect) {
      store.setSending(canCollect);
      if (!canCollect) return;
      settler.retries.retrySoon();
      loop.retryNow();
    },
    async stop() {
      // What fails is lost: the hold of a meter that did not end is released.
      await Promise.allSettled([...lastWork].map((work) => work()));
      charges.stop();
      await loop.stop();
      await store.close();
    },
  };
}

/** Returns the chain's time, where it is known: without it nothing is due because of a cycle's end. */
function chainTimeSec(clock: Clock): number | undefined {
  try {
    return clock.nowSec();
  } catch {
    return undefined;
  }
}
