/**
 * Keeps a meter's books in one locked file, for one process on one machine. Every change is durable before the call
 * resolves. Sends nothing.
 */
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ConfigError, type TurnpikeError } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { Books, emptyAccount, hasBalance } from "./books";
import type { Line, SnapshotEntry } from "./entry-line";
import { Journal } from "./journal";
import { JournalLock } from "./journal-lock";
import { decideReservation, localBooks, type MeterStore } from "./store";

export interface FileMeterStoreOptions {
  readonly path: string;
  /** how long a dead process's lock is honoured before it is taken over; default 10,000, at least 2,000 */
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

  async function readBooks(): Promise<void> {
    const before = books;
    const read = new Books();
    const snapshot = () => snapshotOf(books);
    journal = await Journal.open({ path, snapshot, compactAtBytes, onFailure }, (line) => apply(read, line));
    // Calls of this process that wait for debits of their own are in no file.
    for (const { idHash, held } of before.accounts.values()) if (held > 0n) read.account(idHash).held = held;
    books = read;
  }

  const local = localBooks(() => books);
  return {
    ...local,
    async open() {
      if (journal) throw new ConfigError("The meter's store is open already.");
      await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
        throw new ConfigError(`meterFolder: ${dirname(path)} cannot be written; name another folder`, { cause });
      });
      const taken = new JournalLock({ path, staleMs: lockStaleMs, onDoubt: onFailure, leave, rejoin: readBooks });
      await taken.take();
      try {
        await readBooks();
      } catch (error) {
        await taken.release();
        throw error;
      }
      lock = taken;
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
      await open?.close();
      await lock?.release();
      lock = undefined;
    },
  };
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
}
