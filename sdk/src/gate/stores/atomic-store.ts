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

export interface AtomicStore {
  /** Creates what the store needs; safe to repeat, and to run concurrently. */
  open(): Promise<void>;
  /** the store's own clock, which all gates share */
  nowMs(): Promise<number>;
  read(keys: readonly string[]): Promise<(string | undefined)[]>;
  /** Makes all changes, or none if any expected text differs. @returns whether they were made */
  compareAndSwap(changes: readonly CellChange[]): Promise<boolean>;
  listed(): Promise<{ readonly key: string; readonly text: string }[]>;
}

const TIMEOUT_MS = 5_000;

const CLOCK_AGE_MS = 60_000;

/** A store that opens on first use, bounds every answer in time, and reports every fault as an outage. */
export interface SharedCells extends Omit<AtomicStore, "open" | "nowMs"> {
  /** unix milliseconds by the store's clock, which is read once a minute */
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
  try {
    return await atMost(TIMEOUT_MS, answer, () => {
      throw new Unavailable(`${what} does not answer.`, { retryAfterSec: 2 });
    });
  } catch (cause) {
    // The client's own message may hold addresses and passwords: it goes no further than `cause`.
    throw isTurnpikeError(cause) ? cause : new Unavailable(`${what} cannot be used.`, { cause, retryAfterSec: 2 });
  }
}
