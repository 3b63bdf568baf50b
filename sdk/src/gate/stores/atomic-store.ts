/**
 * The store that claims and meters of several gates share: small texts under keys, changed by atomic compare-and-swap
 * of one or more keys. What the texts mean is the callers' business.
 */
import { isTurnpikeError, Unavailable } from "../../protocol";
import { atMost } from "../../protocol/waiting";

export interface CellChange {
  /** `a@b` is stored where `b` is, so that both can change together */
  readonly key: string;
  /** what the caller has read; undefined: the key is empty */
  readonly expected: string | undefined;
  readonly next: string;
  /** whether `listed` returns it from now on; undefined: as before */
  readonly listed?: boolean;
  /** expires after this long; undefined: as before, or never */
  readonly keepSec?: number;
}

/** What became of a swap: `late` when the store received it after its time, and made no change. */
export type SwapResult = "made" | "differs" | "late";

export interface AtomicStore {
  /** Creates what the store needs; safe to repeat, and to run concurrently. */
  open(): Promise<void>;
  /** the store's own clock, which all gates share */
  nowMs(): Promise<number>;
  read(keys: readonly string[]): Promise<(string | undefined)[]>;
  /**
   * Makes all changes, or none if any expected text differs. A client may send it twice: it is made once.
   * @param untilMs of the store's clock, after which none is made: the caller has given up
   */
  compareAndSwap(changes: readonly CellChange[], untilMs: number): Promise<SwapResult>;
  listed(): Promise<{ readonly key: string; readonly text: string }[]>;
  /** @returns whether a replica has every change that was made so far; absent, or true, where the store has none */
  isReplicated?(): Promise<boolean>;
  /** @returns what the provider can do about a fault of the store's client; undefined where nothing is known of it */
  remedyOf?(fault: unknown): string | undefined;
}

/** How long any answer is waited for. */
export const SWAP_WAIT_MS = 5_000;

const CLOCK_AGE_MS = 60_000;

/** A store that opens on first use, bounds every answer in time, and reports every fault as an outage. */
export interface SharedCells
  extends Omit<AtomicStore, "open" | "nowMs" | "compareAndSwap" | "isReplicated" | "remedyOf"> {
  /** unix milliseconds by the store's clock, which is read once a minute */
  nowMs(): Promise<number>;
  /** Makes all changes, or none if any expected text differs. @returns whether they were made */
  compareAndSwap(changes: readonly CellChange[]): Promise<boolean>;
  /** Waits until a replica, where there is one, has every change that was made so far. @throws Unavailable */
  replicated(): Promise<void>;
  /** Runs a check for the provider, whose error names the remedy. Other errors may reach clients, and name none. */
  checked<T>(check: () => Promise<T>): Promise<T>;
}

/** @throws Unavailable from every method when the store cannot answer */
export function guardCells(
  cells: AtomicStore,
  { what, clockAgeMs = CLOCK_AGE_MS }: { readonly what: string; readonly clockAgeMs?: number },
): SharedCells {
  let opening: Promise<void> | undefined;
  let clock: { readonly storeMs: number; readonly atMs: number } | undefined;

  async function guarded<T>(ask: () => Promise<T>): Promise<T> {
    opening ??= within(cells.open(), what);
    try {
      await opening;
    } catch (error) {
      opening = undefined;
      throw error;
    }
    return within(ask(), what);
  }

  async function nowMs(): Promise<number> {
    if (!clock || performance.now() - clock.atMs > clockAgeMs) {
      clock = { storeMs: await guarded(() => cells.nowMs()), atMs: performance.now() };
    }
    return Math.floor(clock.storeMs + performance.now() - clock.atMs);
  }

  /** A client may keep a command for a store that it cannot reach: one that was given up must not run later. */
  async function swapInTime(changes: readonly CellChange[]): Promise<SwapResult> {
    const untilMs = (await nowMs()) + SWAP_WAIT_MS;
    return guarded(() => cells.compareAndSwap(changes, untilMs));
  }

  return {
    nowMs,
    read: (keys) => guarded(() => cells.read(keys)),
    async compareAndSwap(changes) {
      let result = await swapInTime(changes);
      if (result === "late") {
        // Made in no case. The store's clock has jumped, as in a failover, or this process was suspended.
        clock = undefined;
        result = await swapInTime(changes);
      }
      if (result !== "late") return result === "made";
      throw new Unavailable(`${what} answers too late.`, { retryAfterSec: 2 });
    },
    listed: () => guarded(() => cells.listed()),
    async replicated() {
      if (await guarded(async () => cells.isReplicated?.() ?? true)) return;
      throw new Unavailable(`${what} waits for its replica.`, { retryAfterSec: 2 });
    },
    async checked(check) {
      try {
        return await check();
      } catch (error) {
        const cause = error instanceof Unavailable ? error.cause : undefined;
        const remedy = cells.remedyOf?.(cause);
        if (remedy === undefined) throw error;
        throw new Unavailable(`${(error as Unavailable).message} ${remedy}`, { cause, retryAfterSec: 2 });
      }
    },
  };
}

async function within<T>(answer: Promise<T>, what: string): Promise<T> {
  try {
    return await atMost(SWAP_WAIT_MS, answer, () => {
      throw new Unavailable(`${what} does not answer.`, { retryAfterSec: 2 });
    });
  } catch (cause) {
    // The client's own message may hold addresses and passwords: it goes no further than `cause`.
    throw isTurnpikeError(cause) ? cause : new Unavailable(`${what} cannot be used.`, { cause, retryAfterSec: 2 });
  }
}
