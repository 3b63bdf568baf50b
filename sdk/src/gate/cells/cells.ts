/**
 * The only kind of state that a gate keeps: small texts under keys, changed by atomic compare-and-swap of one or more
 * keys. What the texts mean is the callers' business.
 */
import { isTurnpikeError, TurnpikeError, Unavailable } from "../../protocol";
import { atMost } from "../../protocol/exchange";
import { HOUR_SEC } from "../../protocol/periods";

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

const ANSWER = "answer@";

/** Returns the key of the answer that belongs to a cell. */
export const answerKey = (key: string): string => ANSWER + key;

/** Of a long text, which may be forgotten sooner where space is short; what was there before is replaced unseen. */
export const isAnswer = (key: string): boolean => key.startsWith(ANSWER);

/** A change as claims and meters ask for it. */
export interface AskedChange extends Omit<CellChange, "next"> {
  /** undefined deletes the cell; only where `isLocal` */
  readonly next: string | undefined;
  /** unix seconds, when it expires by the caller's clock, which counts where `isLocal`; undefined: as before, or never */
  readonly untilSec?: number;
}

export interface SwapTimes {
  /** unix milliseconds, the machine's clock: of answers; default now */
  readonly nowMs?: number;
  /** unix seconds, chain time: what expired before it may be forgotten */
  readonly nowSec?: number;
  /** whether it must be on disk before it is reported as made; servers always write first */
  readonly isDurable?: boolean;
}

/** What claims and meters keep their cells in. Every method rejects with Unavailable when it cannot answer. */
export interface Cells {
  /** one machine's: its clock is the caller's, and cells are deleted */
  readonly isLocal: boolean;
  /** unix milliseconds, by the clock that all users share */
  nowMs(): Promise<number>;
  /** @param nowMs of the machine's clock, by which answers expire where `isLocal` */
  read(keys: readonly string[], nowMs?: number): Promise<(string | undefined)[]>;
  /** Makes all changes, or none if any expected text differs. @returns whether they were made */
  swap(changes: readonly AskedChange[], times?: SwapTimes): Promise<boolean>;
  listed(): Promise<{ readonly key: string; readonly text: string }[]>;
  /** Waits until a replica, where there is one, has every change that was made so far. */
  replicated(): Promise<void>;
  /** Runs a check for the provider, whose error names the remedy. Other errors may reach clients, and name none. */
  checked<T>(check: () => Promise<T>): Promise<T>;
  /** Rejects when nothing can be written now. */
  ready(): Promise<void>;
  /** Throws once nothing can be written until a restart. */
  requireHealthy?(): void;
  close(): Promise<void>;
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

/** A cell that is written only to check that the store accepts writes. */
const READY = "ready";

/** Makes cells of a server's store: opens it on first use, bounds every answer in time, reports every fault as an outage. */
export function cellsOn(
  cells: AtomicStore,
  { what, clockAgeMs = CLOCK_AGE_MS }: { readonly what: string; readonly clockAgeMs?: number },
): Cells {
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

  async function swap(changes: readonly AskedChange[]): Promise<boolean> {
    const asked = changes.map(({ key, expected, next, listed, keepSec }): CellChange => {
      if (next === undefined) throw new TurnpikeError("Internal", "A server's cells are not deleted.");
      return { key, expected, next, ...(listed === undefined ? {} : { listed }), ...(keepSec ? { keepSec } : {}) };
    });
    let result = await swapInTime(asked);
    if (result === "late") {
      // Made in no case. The store's clock has jumped, as in a failover, or this process was suspended.
      clock = undefined;
      result = await swapInTime(asked);
    }
    if (result !== "late") return result === "made";
    throw new Unavailable(`${what} answers too late.`, { retryAfterSec: 2 });
  }

  async function checked<T>(check: () => Promise<T>): Promise<T> {
    try {
      return await check();
    } catch (error) {
      const cause = error instanceof Unavailable ? error.cause : undefined;
      const remedy = cells.remedyOf?.(cause);
      if (remedy === undefined) throw error;
      throw new Unavailable(`${(error as Unavailable).message} ${remedy}`, { cause, retryAfterSec: 2 });
    }
  }

  return {
    isLocal: false,
    nowMs,
    read: (keys) => guarded(() => cells.read(keys)),
    swap,
    listed: () => guarded(() => cells.listed()),
    async replicated() {
      if (await guarded(async () => cells.isReplicated?.() ?? true)) return;
      throw new Unavailable(`${what} waits for its replica.`, { retryAfterSec: 2 });
    },
    checked,
    ready: () =>
      checked(async () => {
        const [expected] = await guarded(() => cells.read([READY]));
        // Another gate may have written meanwhile: that also shows that the store accepts writes.
        await swap([{ key: READY, expected, next: String(await nowMs()), keepSec: HOUR_SEC }]);
      }),
    async close() {},
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

const SWEEP_EVERY = 1_000;

const MAX_ANSWER_CHARS = 64 * 1_024 * 1_024;

interface Cell {
  readonly text: string;
  readonly isListed: boolean;
  /** unix seconds; undefined: for ever */
  readonly untilSec: number | undefined;
}

/** Keeps cells in memory, for tests: they end with the process. */
export function memoryCells(): Cells {
  const cells = new Map<string, Cell>();
  let swaps = 0;
  let newestSec = 0;
  let answerChars = 0;

  const find = (key: string, nowMs: number): string | undefined => {
    const cell = cells.get(key);
    const hasEnded = isAnswer(key) && (cell?.untilSec ?? 0) * 1_000 <= nowMs;
    return hasEnded ? undefined : cell?.text;
  };

  function remove(key: string): void {
    if (isAnswer(key)) answerChars -= cells.get(key)?.text.length ?? 0;
    cells.delete(key);
  }

  function set({ key, next, listed, untilSec }: AskedChange): void {
    const before = cells.get(key);
    remove(key);
    if (next === undefined) return;
    const isListed = listed ?? before?.isListed ?? false;
    cells.set(key, { text: next, isListed, untilSec: untilSec ?? before?.untilSec });
    if (isAnswer(key)) answerChars += next.length;
  }

  function sweep(nowMs: number): void {
    for (const [key, { untilSec }] of cells) {
      if (untilSec !== undefined && (isAnswer(key) ? untilSec * 1_000 <= nowMs : untilSec < newestSec)) remove(key);
    }
  }

  /** In the order in which they were kept. */
  function freeAnswers(): void {
    for (const key of cells.keys()) {
      if (answerChars <= MAX_ANSWER_CHARS) return;
      if (isAnswer(key)) remove(key);
    }
  }

  return {
    isLocal: true,
    nowMs: async () => Date.now(),
    read: async (keys, nowMs = Date.now()) => keys.map((key) => find(key, nowMs)),
    async swap(changes, { nowMs = Date.now(), nowSec = 0 }: SwapTimes = {}) {
      newestSec = Math.max(newestSec, nowSec);
      if (++swaps % SWEEP_EVERY === 0) sweep(nowMs);
      if (changes.some(({ key, expected }) => !isAnswer(key) && cells.get(key)?.text !== expected)) return false;
      for (const change of changes) set(change);
      if (answerChars > MAX_ANSWER_CHARS) freeAnswers();
      return true;
    },
    listed: async () => [...cells].flatMap(([key, { text, isListed }]) => (isListed ? [{ key, text }] : [])),
    async replicated() {},
    checked: (check) => check(),
    async ready() {},
    async close() {},
  };
}
