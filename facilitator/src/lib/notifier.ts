/**
 * Wakes what waits in this process when a row changed. A hint only: whoever waits looks again afterwards, and looks
 * without a hint from time to time, since the change may have been made by another process.
 */
export interface Notifier {
  notify(key: string): void;
  /**
   * @returns true when woken, false when the time was up or the store is closing. Once it is closed each wait takes a
   * moment: a loop that outlives its store must leave the process its turns.
   */
  wait(key: string, timeoutMs: number): Promise<boolean>;
  close(): void;
}

const CLOSED_WAIT_MS = 100;

export function createNotifier(): Notifier {
  const waiting = new Map<string, Set<(woken: boolean) => void>>();
  let closed = false;
  return {
    notify(key) {
      for (const wakeUp of [...(waiting.get(key) ?? [])]) wakeUp(true);
    },
    wait(key, timeoutMs) {
      if (closed)
        return new Promise((resolve) => setTimeout(resolve, Math.min(timeoutMs, CLOSED_WAIT_MS), false).unref());
      return new Promise((resolve) => {
        const set = waiting.get(key) ?? new Set();
        waiting.set(key, set);
        const timer = setTimeout(() => wakeUp(false), timeoutMs);
        const wakeUp = (woken: boolean): void => {
          clearTimeout(timer);
          set.delete(wakeUp);
          if (set.size === 0 && waiting.get(key) === set) waiting.delete(key);
          resolve(woken);
        };
        set.add(wakeUp);
      });
    },
    close() {
      closed = true;
      for (const set of [...waiting.values()]) for (const wakeUp of [...set]) wakeUp(false);
    },
  };
}
