/**
 * Locks a folder for one process, which refreshes the lock's time. Whether a lock is refreshed is observed, because its
 * time is of a clock that may have been wrong: the lock of a killed process can name tomorrow, and a live one yesterday.
 */
import { rmdirSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import lockfile from "proper-lockfile";

const LOOK_MS = 500;

const MIN_REFRESH_MS = 1_000;

/**
 * Waits for the lock, also for that of a process that has ended without releasing it.
 * @param staleMs how long a lock that nobody refreshes is honoured; at least 2,000
 * @returns the function that releases it; undefined when a live process has it
 */
export async function lockFolder(folder: string, staleMs: number): Promise<(() => Promise<void>) | undefined> {
  const lockfilePath = `${folder}.lock`;
  const lock = new WatchedLock(lockfilePath, staleMs);
  // The package would compare the lock's time with this machine's clock.
  const options = { lockfilePath, stale: Number.POSITIVE_INFINITY, update: Math.max(MIN_REFRESH_MS, staleMs / 5) };
  const untilMs = performance.now() + staleMs + 2 * LOOK_MS;
  for (;;) {
    try {
      return await lockfile.lock(folder, options);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ELOCKED") throw error;
    }
    if (!lock.removeIfStale() && performance.now() > untilMs) return undefined;
    // Also after a removal: others that watched the same lock have removed it by then, and none removes the next one.
    await sleep(LOOK_MS);
  }
}

/** Another process's lock, watched since it was first found. */
class WatchedLock {
  readonly #path: string;
  readonly #staleMs: number;
  #timeMs: number | undefined;
  #unchangedSinceMs = 0;

  constructor(path: string, staleMs: number) {
    this.#path = path;
    this.#staleMs = staleMs;
  }

  /** @returns whether nobody has refreshed it for long, and it is removed */
  removeIfStale(): boolean {
    const nowMs = performance.now();
    const timeMs = statSync(this.#path, { throwIfNoEntry: false })?.mtimeMs;
    if (timeMs !== this.#timeMs) {
      this.#timeMs = timeMs;
      this.#unchangedSinceMs = nowMs;
    }
    if (timeMs === undefined || nowMs - this.#unchangedSinceMs < this.#staleMs) return false;
    this.#timeMs = undefined;
    try {
      rmdirSync(this.#path);
    } catch (error) {
      // Somebody else has removed it, or its owner has released it.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    return true;
  }
}
