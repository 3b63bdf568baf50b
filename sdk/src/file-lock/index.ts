/**
 * Locks a path for one process by a folder beside it, whose time the owner refreshes. Whether a lock is refreshed is
 * observed, because its time is of a clock that may have been wrong: the lock of a killed process can name tomorrow, and
 * a live one yesterday. Node only, and for this project's own packages: `turnpike` does not export it.
 */
import * as fs from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { lock } from "proper-lockfile";

export { isDiskFull } from "./full-disk";
export { removeUnfinished, replaceFile } from "./replace";

export interface FileLockOptions {
  /** how long a lock that nobody refreshes is honoured, ms; at least 2,000 */
  readonly staleMs: number;
  /** how long to wait for another process's lock, ms; less than `staleMs` takes none over. Default: 1,000 more than it */
  readonly waitMs?: number | undefined;
  /** the lock itself; default: the path with `.lock` behind it */
  readonly lockPath?: string;
  /** called once when another process may have the lock; default: it is thrown, which ends the process */
  readonly onLost?: (cause: Error) => void;
}

export interface FileLock {
  /** Returns whether the lock is as this process left it; otherwise another process may have it. */
  isOwn(): boolean;
  /** Leaves another process's lock alone. */
  release(): Promise<void>;
}

/** How often another process's lock is looked at: processes that share a file free it for a moment only. */
const LOOK_MS = 100;

/** How long others may take to notice that a lock was removed. */
const REMOVAL_MS = 500;

const MIN_STALE_MS = 2_000;

const MIN_REFRESH_MS = 1_000;

/** The package's code for a lock that another process has. */
const IN_USE = "ELOCKED";

/**
 * Waits for the lock, also for that of a process that has ended without releasing it.
 * @returns undefined when a live process has it
 * @throws the system's error, with its `code`, when nothing can be locked there
 */
export async function lockFile(path: string, options: FileLockOptions): Promise<FileLock | undefined> {
  const staleMs = Math.max(MIN_STALE_MS, options.staleMs);
  const { lockPath = `${resolve(path)}.lock`, waitMs = staleMs + 2 * REMOVAL_MS, onLost } = options;
  const watched = new WatchedLock(lockPath, staleMs);
  const begunMs = performance.now();
  for (;;) {
    try {
      return await OwnLock.take(path, { lockPath, staleMs, onLost });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== IN_USE) throw error;
    }
    const isRemoved = watched.removeIfStale();
    const leftMs = begunMs + waitMs + watched.missedMs - performance.now();
    if (!isRemoved && leftMs <= 0) return undefined;
    // Also after a removal: others that watched the same lock have removed it by then, and none removes the next one.
    await sleep(isRemoved ? REMOVAL_MS : Math.min(LOOK_MS, leftMs));
  }
}

type Done = (error: NodeJS.ErrnoException | null) => void;

interface TakeOptions {
  readonly lockPath: string;
  readonly staleMs: number;
  readonly onLost: ((cause: Error) => void) | undefined;
}

/** This process's lock. */
class OwnLock implements FileLock {
  readonly #path: string;
  readonly #staleMs: number;
  /** The folder itself, held open: after a pause another process may have made one of the same name, and the same number. */
  #folder: number | undefined;
  /** what this process set last; undefined while it makes the lock */
  #timeMs: number | undefined;
  #unlock = async (): Promise<void> => undefined;

  private constructor(path: string, staleMs: number) {
    this.#path = path;
    this.#staleMs = staleMs;
  }

  static async take(path: string, { lockPath, staleMs, onLost }: TakeOptions): Promise<OwnLock> {
    const own = new OwnLock(lockPath, staleMs);
    own.#unlock = await lock(path, {
      lockfilePath: lockPath,
      stale: staleMs,
      update: Math.max(MIN_REFRESH_MS, staleMs / 5),
      realpath: false,
      fs: own.#calls(),
      onCompromised(cause) {
        own.#end();
        if (!onLost) throw cause;
        onLost(cause);
      },
    });
    return own;
  }

  isOwn(): boolean {
    if (this.#folder === undefined) return false;
    const found = fs.statSync(this.#path, { throwIfNoEntry: false });
    if (found?.ino !== fs.fstatSync(this.#folder).ino) return false;
    return this.#timeMs === undefined || found.mtimeMs === this.#timeMs;
  }

  async release(): Promise<void> {
    if (this.#folder === undefined) return;
    await this.#unlock();
    this.#end();
  }

  #end(): void {
    if (this.#folder !== undefined) fs.closeSync(this.#folder);
    this.#folder = undefined;
  }

  /** Returns what the package calls to make the lock, to refresh it, and to remove it, also as the process ends. */
  #calls() {
    return {
      stat: fs.stat,
      mkdir: (path: string, done: Done) => this.#make(path, done),
      utimes: (_path: string, accessed: Date, modified: Date, done: Done) => done(this.#refresh(accessed, modified)),
      rmdir: (path: string, done: Done) => (this.isOwn() ? fs.rmdir(path, done) : done(null)),
      rmdirSync: (path: string) => {
        if (this.isOwn()) fs.rmdirSync(path);
      },
    };
  }

  /** Sets its time. Not by its path, where another process's lock may be by now. */
  #refresh(accessed: Date, modified: Date): NodeJS.ErrnoException | null {
    if (this.#folder === undefined) return null;
    try {
      fs.futimesSync(this.#folder, accessed, modified);
      // The file system may keep whole seconds.
      this.#timeMs = fs.fstatSync(this.#folder).mtimeMs;
      return null;
    } catch (error) {
      return error as NodeJS.ErrnoException;
    }
  }

  #make(path: string, done: Done): void {
    const begunMs = performance.now();
    fs.mkdir(path, (error) => {
      // The package would take it over by this machine's clock.
      if (error) return done(error.code === "EEXIST" ? Object.assign(error, { code: IN_USE }) : error);
      fs.open(path, "r", (fault, folder) => {
        if (fault) return done(fault.code === "ENOENT" ? Object.assign(fault, { code: IN_USE }) : fault);
        this.#folder = folder;
        if (performance.now() - begunMs < this.#staleMs / 2) return done(null);
        // After a pause it may be another process's, which has taken it over: it is asked for like any other.
        this.#end();
        this.#make(path, done);
      });
    });
  }
}

const timeOf = (path: string): number | undefined => fs.statSync(path, { throwIfNoEntry: false })?.mtimeMs;

/** Another process's lock, watched since it was first found. */
class WatchedLock {
  readonly #path: string;
  readonly #staleMs: number;
  #timeMs: number | undefined;
  #lookedAtMs = performance.now();
  #unchangedSinceMs = this.#lookedAtMs;
  #missedMs = 0;

  constructor(path: string, staleMs: number) {
    this.#path = path;
    this.#staleMs = staleMs;
  }

  /** Returns for how long the watch was in vain, because this process was suspended. */
  get missedMs(): number {
    return this.#missedMs;
  }

  /** @returns whether nobody has refreshed it for long, and it is removed */
  removeIfStale(): boolean {
    const nowMs = performance.now();
    const timeMs = timeOf(this.#path);
    // A suspended machine suspends the owner too, which then gets the time to refresh its lock.
    const hasPaused = nowMs - this.#lookedAtMs > this.#staleMs / 2;
    if (hasPaused) this.#missedMs += nowMs - this.#unchangedSinceMs;
    this.#lookedAtMs = nowMs;
    if (timeMs !== this.#timeMs || hasPaused) {
      this.#timeMs = timeMs;
      this.#unchangedSinceMs = nowMs;
    }
    if (timeMs === undefined || nowMs - this.#unchangedSinceMs < this.#staleMs) return false;
    this.#timeMs = undefined;
    try {
      fs.rmdirSync(this.#path);
    } catch (error) {
      // Somebody else has removed it, or its owner has released it.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    return true;
  }
}
