/**
 * Keeps a meter's books in one locked file, for one process on one machine. Every change is durable before the call
 * resolves. Sends nothing.
 */
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type FileLock, isDiskFull, lockFile } from "../../file-lock";
import { ConfigError, TurnpikeError, Unavailable } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { Books, emptyAccount, hasBalance } from "./books";
import type { Line, SnapshotEntry } from "./entry-line";
import { GONE, uncharge } from "./holds";
import { Journal } from "./journal";
import { chargeLocalHold, localBooks, type MeterStore, reserveLocally } from "./store";

export interface FileMeterStoreOptions {
  readonly path: string;
  /** how long a lock is seen without its process before it is taken over; default 10,000, at least 2,000 */
  readonly lockStaleMs?: number;
  /** the file's size at which it is replaced by a snapshot; default 32 MiB */
  readonly compactAtBytes?: number;
  /**
   * Called once for each failure; default: a warning. After a failure of the disk everything is refused until a restart;
   * after the loss of the lock until it is held again.
   */
  readonly onFailure?: (error: TurnpikeError) => void;
}

const DEFAULT_COMPACT_AT_BYTES = 32 * 1024 * 1024;

export function createFileMeterStore(options: FileMeterStoreOptions): MeterStore {
  const {
    lockStaleMs = 10_000,
    compactAtBytes = DEFAULT_COMPACT_AT_BYTES,
    onFailure = (error: TurnpikeError) => process.emitWarning(error),
  } = options;
  const path = resolve(options.path);
  let books = new Books();
  let journal: Journal | undefined;
  let lock: JournalLock | undefined;

  function opened(): Journal {
    lock?.requireHeld();
    if (!journal) throw new ConfigError("The meter's store is not open: call start() first, and nothing after stop().");
    journal.requireHealthy();
    return journal;
  }

  /** Another process may write the file now: what waits to be written is refused. */
  async function leave(reason: TurnpikeError): Promise<void> {
    const left = journal;
    journal = undefined;
    await left?.abandon(reason);
  }

  async function readBooks(held: JournalLock): Promise<void> {
    const before = books;
    const read = new Books();
    const snapshot = () => snapshotOf(books);
    const opening = { path, snapshot, compactAtBytes, onFailure, lock: held };
    journal = await Journal.open(opening, (line) => apply(read, line));
    // What is set aside for meters of this process is in no file.
    for (const { idHash, holds } of before.accounts.values()) {
      if (holds.length > 0) Object.assign(read.account(idHash), { holds });
    }
    books = read;
  }

  const local = localBooks(() => books);
  return {
    ...local,
    async open() {
      if (journal) throw new ConfigError("The meter's store is open already.");
      await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
        throw unusable(`${dirname(path)} cannot be written`, cause);
      });
      const taken = new JournalLock({ path, staleMs: lockStaleMs, onDoubt: onFailure, leave, rejoin: readBooks });
      await taken.take();
      try {
        await readBooks(taken);
      } catch (error) {
        await taken.release();
        throw error;
      }
      lock = taken;
    },
    requireHealthy: () => void opened(),
    async reserve(request) {
      const open = opened();
      const { decision, entry } = reserveLocally(books, request);
      if (entry === undefined) return decision;
      // Applied in the turn in which it was decided, so that a parallel call sees it; resolved when it is on disk.
      books.apply(entry);
      await open.reserved(entry);
      return decision;
    },
    async holdAhead(request) {
      opened();
      return local.holdAhead(request);
    },
    async chargeHold(request) {
      const open = opened();
      const charge = chargeLocalHold(books, request);
      if (charge === undefined) return GONE;
      const { before, entry, done } = charge;
      if (entry === undefined) return done;
      books.apply(entry);
      try {
        await open.reserved(entry);
      } catch (error) {
        // It is in no file: books that are read again owe it only if it is charged again.
        uncharge(books.account(entry.idHash), before, entry.amount);
        throw error;
      }
      return done;
    },
    async record(entry) {
      const open = opened();
      books.apply(entry);
      await open.append(entry);
    },
    async close() {
      const open = journal;
      journal = undefined;
      await open?.close();
      await lock?.release();
      lock = undefined;
    },
  };
}

function unusable(problem: string, cause: unknown): ConfigError {
  const remedy = isDiskFull(cause) ? "its disk is full: free some space on it" : "name another folder";
  return new ConfigError(`meterFolder: ${problem}; ${remedy}`, { cause });
}

function snapshotOf(books: Books): SnapshotEntry {
  return {
    kind: "snapshot",
    accounts: [...books.accounts.values()].filter(hasBalance).map((account) => ({ ...account, holds: [] })),
    batches: [...books.batches.values()],
    recent: books.recent,
    successors: [...books.successors],
    totals: books.totals,
    nextBatch: books.nextBatch,
    receipts: [...books.receipts],
  };
}

function apply(books: Books, line: Line): void {
  if (line.kind !== "snapshot") {
    books.apply(line);
    return;
  }
  for (const account of line.accounts) {
    books.accounts.set(account.idHash, { ...emptyAccount(account.idHash), ...account });
  }
  for (const batch of line.batches) books.batches.set(batch.id, batch);
  books.recent.push(...line.recent);
  for (const [from, to] of line.successors) books.successors.set(from as Hex, to as Hex);
  Object.assign(books.totals, line.totals);
  books.nextBatch = line.nextBatch;
  for (const [idHash, receipt] of line.receipts ?? []) books.receipts.set(idHash as Hex, receipt);
}

export interface JournalLockOptions {
  /** of the journal */
  readonly path: string;
  /** how long a dead process's lock is honoured */
  readonly staleMs: number;
  /** called once for each time that the lock may be another process's */
  readonly onDoubt: (reason: TurnpikeError) => void;
  /** The lock is lost: closes the journal. */
  readonly leave: (reason: TurnpikeError) => Promise<void>;
  /** The lock is taken again: opens the journal and reads it. */
  readonly rejoin: (held: JournalLock) => Promise<void>;
}

/** Of the time after which a lock is stale: a standstill of this much is noticed before another process takes over. */
const STANDSTILL_SHARE = 0.75;

const TAKE_AGAIN_MS = 5_000;

/**
 * Limits a meter's journal to one process. A process that was suspended for long (a laptop, a paused container) may
 * have lost its lock. It writes nothing until it has checked that it still owns the lock, or has acquired it again and
 * read what others wrote.
 */
class JournalLock {
  private lock: FileLock | undefined;
  private doubt: TurnpikeError | undefined;
  private isLost = false;
  private isReleased = false;
  private recovering: Promise<void> | undefined;
  private pulse: NodeJS.Timeout | undefined;
  private aliveAtMs = 0;

  constructor(private readonly options: JournalLockOptions) {}

  /** @throws LedgerLocked while another process holds it */
  async take(): Promise<void> {
    const { path, staleMs } = this.options;
    const lock = await lockFile(path, { staleMs, onLost: (cause) => this.lose(cause) }).catch((cause: unknown) => {
      throw unusable(`the journal ${path} cannot be locked`, cause);
    });
    if (!lock)
      throw new TurnpikeError(
        "LedgerLocked",
        `Another process holds the meter's journal ${path}. Give each process a folder of its own (meterFolder, TURNPIKE_METER), or all of them one meterStore.`,
      );
    this.lock = lock;
    this.isLost = false;
    this.aliveAtMs = performance.now();
    this.pulse ??= setInterval(() => {
      if (!this.stoodStill()) this.aliveAtMs = performance.now();
    }, staleMs / 10).unref();
  }

  /** @throws Unavailable while it may be another process's */
  requireHeld(): void {
    if (!this.doubt && this.stoodStill()) this.suspect("standstill");
    if (this.doubt) throw this.doubt;
  }

  async release(): Promise<void> {
    this.isReleased = true;
    clearInterval(this.pulse);
    await this.recovering;
    await this.lock?.release();
  }

  private stoodStill(): boolean {
    return performance.now() - this.aliveAtMs > this.options.staleMs * STANDSTILL_SHARE;
  }

  isTaken(): boolean {
    return this.lock?.isTaken() ?? false;
  }

  lose(cause: unknown): TurnpikeError {
    this.isLost = true;
    return this.suspect(cause);
  }

  private suspect(cause: unknown): TurnpikeError {
    if (this.doubt) return this.doubt;
    const message = "The lock of the meter's journal may be another process's; it is being checked or taken again.";
    const doubt = new Unavailable(message, { cause, retryAfterSec: 5 });
    if (this.isReleased) return doubt;
    this.doubt = doubt;
    this.options.onDoubt(doubt);
    this.recovering = this.recover(doubt);
    return doubt;
  }

  /** Ends with the lock held and the journal open, or with `release`. */
  private async recover(doubt: TurnpikeError): Promise<void> {
    // The lock is refreshed several times within `staleMs`; that shows whether it is taken or gone.
    const lookMs = this.options.staleMs / 2;
    while ((await this.rest(lookMs)) > 1.5 * lookMs);
    while (this.isLost && !this.isReleased) {
      await this.options.leave(doubt);
      // Its end is noticed late, and must not count as the next one's.
      await this.releaseLock();
      try {
        await this.take();
        await this.options.rejoin(this);
      } catch {
        await this.releaseLock();
        await this.rest(TAKE_AGAIN_MS);
      }
    }
    this.aliveAtMs = performance.now();
    if (!this.isLost) this.doubt = undefined;
  }

  private async releaseLock(): Promise<void> {
    await this.lock?.release().catch(() => undefined);
    this.isLost = true;
  }

  /** In short naps, so that a process that closes its meter does not wait. @returns how long it took */
  private async rest(totalMs: number): Promise<number> {
    const beganMs = performance.now();
    const passedMs = (): number => performance.now() - beganMs;
    while (!this.isReleased && passedMs() < totalMs) await sleep(Math.min(100, totalMs), undefined, { ref: false });
    return passedMs();
  }
}
