/** Keeps cells in memory, for tests: they end with the process. */
import { type AskedChange, type Cells, isAnswer, type SwapTimes } from "./cells";

const SWEEP_EVERY = 1_000;

const MAX_ANSWER_CHARS = 64 * 1_024 * 1_024;

interface Cell {
  readonly text: string;
  readonly isListed: boolean;
  /** unix seconds; undefined: for ever */
  readonly untilSec: number | undefined;
}

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
