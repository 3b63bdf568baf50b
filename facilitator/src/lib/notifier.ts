/**
 * Notifies waiting code in this process that a row changed. A hint only: waiters read the row afterwards. They also
 * poll, because another process may have changed it.
 */
export interface Notifier<Topic extends string = string> {
  notify(key: Topic): void;
  /**
   * Waits for a notification. After `close` each wait still takes a moment, so that a loop that outlives its store does
   * not block the process.
   * @returns true when notified, false after the timeout or on `close`
   */
  wait(key: Topic, timeoutMs: number): Promise<boolean>;
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
