/**
 * Keeps a meter's books in one locked file, for one process on one machine. Every change is durable before the call
 * resolves. Sends nothing.
 */
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { lock } from "proper-lockfile";
import { ConfigError, TurnpikeError, Unavailable } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { Books, emptyAccount, hasBalance } from "./books";
import type { Line, SnapshotEntry } from "./entry-line";
import { Journal } from "./journal";
import { decideReservation, localBooks, type MeterStore } from "./store";

export interface FileMeterStoreOptions {
  readonly path: string;
  /** how long a dead process's lock is honoured before it is taken over; default 10,000, at least 2,000 */
  readonly lockStaleMs?: number;
  /** the file's size at which it is replaced by a snapshot; default 32 MiB */
  readonly compactAtBytes?: number;
  /**
   * called once when the disk or the lock is lost, after which every call is refused until a restart; default: a
   * warning
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
  let unlock: (() => Promise<void>) | undefined;
  let lost: TurnpikeError | undefined;
  let pulse: NodeJS.Timeout | undefined;
  let aliveAtMs = 0;

  function loseLock(cause: unknown): void {
    lost ??= new Unavailable("The meter's file lock was lost: another process may write its journal.", { cause });
    onFailure(lost);
  }

  function opened(): Journal {
    // After a standstill this long (a stopped container) another process may hold the lock before the loss is noticed.
    if (!lost && pulse !== undefined && performance.now() - aliveAtMs > lockStaleMs * 0.75) loseLock("standstill");
    if (lost) throw lost;
    if (!journal) throw new ConfigError("The meter's store is not open: call start() first, and nothing after stop().");
    journal.requireHealthy();
    return journal;
  }

  const local = localBooks(() => books);
  return {
    ...local,
    async open() {
      if (journal) throw new ConfigError("The meter's store is open already.");
      await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
        throw new ConfigError(`meterFolder: ${dirname(path)} cannot be written; name another folder`, { cause });
      });
      lost = undefined;
      unlock = await takeLock(path, lockStaleMs, loseLock);
      aliveAtMs = performance.now();
      pulse = setInterval(() => {
        if (performance.now() - aliveAtMs <= lockStaleMs * 0.75) aliveAtMs = performance.now();
      }, lockStaleMs / 10);
      pulse.unref();
      books = new Books();
      try {
        const snapshot = () => snapshotOf(books);
        journal = await Journal.open({ path, snapshot, compactAtBytes, onFailure }, (line) => read(books, line));
      } catch (error) {
        clearInterval(pulse);
        await unlock();
        throw error;
      }
    },
    requireHealthy: () => void opened(),
    async reserve(request) {
      const open = opened();
      const decision = decideReservation(books.find(request.idHash), request);
      if (decision.kind !== "reserved") return decision;
      const { idHash, facts } = request;
      const { charged: amount } = decision;
      // Applied in the turn in which it was decided, so that a parallel call sees it; resolved when it is on disk.
      books.apply({ kind: "reserved", idHash, amount, calls: 1, block: facts.blockNumber });
      await open.reserved(idHash, amount, facts.blockNumber);
      return decision;
    },
    async hold(request) {
      opened();
      return local.hold(request);
    },
    async record(entry) {
      const open = opened();
      books.apply(entry);
      await open.append(entry);
    },
    async close() {
      const open = journal;
      journal = undefined;
      clearInterval(pulse);
      pulse = undefined;
      await open?.close();
      if (!lost) await unlock?.();
    },
  };
}

async function takeLock(path: string, staleMs: number, onLost: (cause: unknown) => void) {
  // A process that was killed leaves its lock behind; it is taken over once it is stale, so wait a little longer.
  const retries = { retries: Math.ceil((staleMs * 1.5) / 250), factor: 1, minTimeout: 250, maxTimeout: 250 };
  try {
    return await lock(path, {
      realpath: false,
      stale: staleMs,
      update: staleMs / 4,
      retries,
      onCompromised: onLost,
    });
  } catch (cause) {
    throw new TurnpikeError(
      "LedgerLocked",
      `Another process holds the meter's journal ${path}. Give each process a folder of its own (meterFolder, TURNPIKE_METER), or all of them one meterStore.`,
      { cause },
    );
  }
}

function snapshotOf(books: Books): SnapshotEntry {
  return {
    kind: "snapshot",
    accounts: [...books.accounts.values()].filter(hasBalance).map((account) => ({ ...account, held: 0n })),
    batches: [...books.batches.values()],
    recent: books.recent,
    successors: [...books.successors],
    totals: books.totals,
    nextBatch: books.nextBatch,
  };
}

function read(books: Books, line: Line): void {
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
}
