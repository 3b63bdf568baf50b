/**
 * What claims and meters ask of a store that several gates share: small texts under names, changed together or not at
 * all, and only while they are still what the caller has read. Which rules the texts obey is the callers' matter.
 */
import { isTurnpikeError, Unavailable } from "../../protocol";

export interface CellChange {
  /** `a@b` is stored where `b` is, so that both can change together */
  readonly key: string;
  /** what the caller has read; undefined: nothing stands there */
  readonly expected: string | undefined;
  readonly next: string;
  /** found by `listed` from now on, or no more */
  readonly listed?: boolean;
  /** forgotten after so long; undefined: as before, or never */
  readonly keepSec?: number;
}

export interface AtomicStore {
  /** Makes what is needed in the store; safe to repeat, and beside others. */
  open(): Promise<void>;
  /** the store's own clock: the one that all gates can agree on */
  nowMs(): Promise<number>;
  read(keys: readonly string[]): Promise<(string | undefined)[]>;
  /** All changes, or none. @returns whether they were made */
  compareAndSwap(changes: readonly CellChange[]): Promise<boolean>;
  listed(): Promise<{ readonly key: string; readonly text: string }[]>;
}

const TIMEOUT_MS = 5_000;

const CLOCK_AGE_MS = 60_000;

/** Opened with the first use, every answer bounded in time, every fault told as an outage. */
export interface SharedCells extends Omit<AtomicStore, "open" | "nowMs"> {
  /** unix milliseconds by the store's clock, asked for once a minute */
  nowMs(): Promise<number>;
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

  return {
    async nowMs() {
      const nowMs = performance.now();
      if (!clock || nowMs - clock.atMs > clockAgeMs) {
        clock = { storeMs: await guarded(() => cells.nowMs()), atMs: performance.now() };
      }
      return Math.floor(clock.storeMs + performance.now() - clock.atMs);
    },
    read: (keys) => guarded(() => cells.read(keys)),
    compareAndSwap: (changes) => guarded(() => cells.compareAndSwap(changes)),
    listed: () => guarded(() => cells.listed()),
  };
}

async function within<T>(answer: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Unavailable(`${what} does not answer.`, { retryAfterSec: 2 })), TIMEOUT_MS);
    timer.unref();
  });
  try {
    return await Promise.race([answer, late]);
  } catch (cause) {
    // The client's own words may hold addresses and passwords: they go no further than `cause`.
    throw isTurnpikeError(cause) ? cause : new Unavailable(`${what} cannot be used.`, { cause, retryAfterSec: 2 });
  } finally {
    clearTimeout(timer);
  }
}
