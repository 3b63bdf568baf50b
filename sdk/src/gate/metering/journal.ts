/**
 * Writes an append-only file whose lines are durable before `append` resolves: entries that arrive during a write share
 * the next write and fsync (group commit). Compacts itself into one snapshot. Of the entries' meaning it knows only
 * that reservations of one subscription in one group add up.
 */
import { statSync } from "node:fs";
import { type FileHandle, readFile, rm } from "node:fs/promises";
import { isDiskFull, removeUnfinished, replaceFile, syncFolder } from "../../file-lock";
import { ConfigError, type TurnpikeError, Unavailable } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type Deferred, deferred } from "../../protocol/waiting";
import type { Entry } from "./books";
import { decodeLines, encodeLine, type Line, type SnapshotEntry } from "./entry-line";

const NOTE = /^([0-9]{1,15})\n$/;

const noteOf = (path: string): string => `${path}.repair`;

const textOrNothing = (path: string): Promise<Buffer | undefined> =>
  readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });

/** Reads how much of the file was acknowledged, where a note says so. @throws ConfigError for one that cannot be read */
async function notedBytes(path: string): Promise<number | undefined> {
  const note = await textOrNothing(noteOf(path));
  if (note === undefined) return undefined;
  const wholeBytes = NOTE.exec(note.toString("latin1"))?.[1];
  if (wholeBytes !== undefined) return Number(wholeBytes);
  throw new ConfigError(
    `${noteOf(path)} is damaged: the end of the meter's journal may hold calls that were refused. Remove the note to charge them nevertheless.`,
  );
}

export interface JournalOptions {
  readonly path: string;
  /** returns the current books, with everything appended so far */
  readonly snapshot: () => SnapshotEntry;
  /** bytes after which the file is replaced by a snapshot */
  readonly compactAtBytes: number;
  readonly onFailure: (error: TurnpikeError) => void;
  readonly lock: {
    /** whether another process has it now */
    isTaken(): boolean;
    /** Takes note that the file is another process's. @returns what calls are refused with from now on */
    lose(cause: unknown): TurnpikeError;
  };
}

type Reservation = {
  -readonly [K in keyof Extract<Entry, { kind: "reserved" }>]: Extract<Entry, { kind: "reserved" }>[K];
};

interface Group {
  readonly lines: Line[];
  /** this group's line for a subscription since its last other entry */
  readonly reservations: Map<Hex, Reservation>;
  readonly durable: Deferred<void>;
}

export class Journal {
  private group: Group | undefined;
  private writing: Promise<void> | undefined;
  private failure: TurnpikeError | undefined;
  private lost: TurnpikeError | undefined;
  private compactAtBytes: number;

  private constructor(
    private readonly options: JournalOptions,
    private file: FileHandle,
    private inode: number,
    private sizeBytes: number,
  ) {
    this.compactAtBytes = options.compactAtBytes;
  }

  /**
   * Reads the file, passes each entry to `onLine`, and replaces it by what was acknowledged of it: a former owner that was
   * paused goes on in the file that this one replaces.
   * @throws ConfigError for damage; Unavailable while the disk takes nothing
   */
  static async open(options: JournalOptions, onLine: (line: Line) => void): Promise<Journal> {
    const { path, lock } = options;
    await removeUnfinished(path);
    const noted = await notedBytes(path);
    const bytes = (await textOrNothing(path)) ?? Buffer.alloc(0);
    const { lines, wholeBytes } = decodeLines(bytes.subarray(0, noted));
    for (const line of lines) onLine(line);
    let file: FileHandle | undefined;
    try {
      file = await replaceFile(path, bytes.subarray(0, wholeBytes), () => requireFree(lock));
      // What every call will ask of the disk.
      await file.datasync();
      if (noted !== undefined) {
        await rm(noteOf(path), { force: true });
        await syncFolder(path);
      }
      return new Journal(options, file, (await file.stat()).ino, wholeBytes);
    } catch (cause) {
      await file?.close();
      throw unwritable(cause);
    }
  }

  /** @throws Unavailable once a write has failed: what the disk holds is then unknown until the file is read again */
  requireHealthy(): void {
    if (this.failure) throw this.failure;
  }

  reserved(entry: Readonly<Reservation>): Promise<void> {
    const group = this.openGroup();
    const line = group.reservations.get(entry.idHash);
    if (line === undefined) {
      const first: Reservation = { ...entry };
      group.reservations.set(entry.idHash, first);
      group.lines.push(first);
    } else {
      line.amount += entry.amount;
      line.calls += entry.calls;
      line.block = Math.max(line.block, entry.block);
      // The last one contains the others.
      if (entry.receipt) line.receipt = entry.receipt;
    }
    return group.durable.promise;
  }

  append(entry: Entry): Promise<void> {
    const group = this.openGroup();
    // What is reserved after this entry must follow it in the file.
    group.reservations.clear();
    group.lines.push(entry);
    return group.durable.promise;
  }

  /** Resolves when everything appended so far is durable and the file is closed. */
  async close(): Promise<void> {
    while (this.writing) await this.writing;
    await this.file.close();
  }

  /** Closes the file without writing what waits: its entries are refused with `reason`. */
  async abandon(reason: TurnpikeError): Promise<void> {
    this.failure ??= reason;
    this.group?.durable.reject(reason);
    this.group = undefined;
    await this.close();
  }

  private openGroup(): Group {
    this.requireHealthy();
    if (this.group === undefined) {
      this.group = { lines: [], reservations: new Map(), durable: deferred() };
      this.writing ??= this.write();
    }
    return this.group;
  }

  private async write(): Promise<void> {
    // Reservations of this turn of the event loop share the first write.
    await new Promise<void>((resolve) => setImmediate(resolve));
    for (let group = this.group; group !== undefined; group = this.group) {
      this.group = undefined;
      // Same turn of the event loop as the group: the snapshot contains the group's entries, and no later ones.
      const snapshot = this.sizeBytes >= this.compactAtBytes ? encodeLine(this.options.snapshot()) : undefined;
      try {
        this.requireOwn();
        await this.appendLines(group.lines);
        // After a pause in there it may be in a file that another process has read before, and replaced.
        this.requireOwn();
      } catch (cause) {
        await this.fail(cause, group);
        break;
      }
      group.durable.resolve();
      if (snapshot !== undefined && !(await this.compact(Buffer.from(snapshot)))) break;
    }
    this.writing = undefined;
  }

  /** The lock first: another process replaces the file before it releases it. */
  private requireOwn(): void {
    const { lock, path } = this.options;
    if (lock.isTaken() || inodeOf(path) !== this.inode) {
      this.lost = lock.lose("another process has it");
      throw this.lost;
    }
  }

  private async appendLines(lines: readonly Line[]): Promise<void> {
    let text = "";
    for (const line of lines) text += encodeLine(line);
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) at += (await this.file.write(bytes, at)).bytesWritten;
    await this.file.datasync();
    this.sizeBytes += bytes.length;
  }

  /**
   * Replaces the file by its snapshot. A failure before the rename loses nothing; a failure after it leaves two equal
   * files, and nothing may be added to either.
   */
  private async compact(bytes: Buffer): Promise<boolean> {
    const { path, lock } = this.options;
    const before = this.file;
    try {
      this.file = await replaceFile(path, bytes, () => requireFree(lock));
      this.inode = (await this.file.stat()).ino;
    } catch (cause) {
      // Retried when the file has doubled.
      this.compactAtBytes = 2 * this.sizeBytes;
      if (inodeOf(path) === this.inode) return true;
      this.refuseAll(new Unavailable("The meter's journal cannot be replaced.", { cause, retryAfterSec: 30 }));
      return false;
    }
    await before.close();
    this.sizeBytes = bytes.length;
    // Large books are not written again for every group.
    this.compactAtBytes = Math.max(this.options.compactAtBytes, 2 * bytes.length);
    return true;
  }

  /** Rejects a group whose write failed, and removes its entries, so that no later start replays them. */
  private async fail(cause: unknown, group: Group): Promise<void> {
    const { path } = this.options;
    const failure = this.lost ?? unwritable(cause);
    this.failure = failure;
    const isSafe = this.lost !== undefined || (await this.cutBack());
    group.durable.reject(failure);
    const remedy = `Cut ${path} to ${this.sizeBytes} bytes before the next start: what follows was refused, and would be charged.`;
    this.refuseAll(failure, isSafe ? failure : new ConfigError(remedy, { cause }));
  }

  /** Cuts off refused entries. @returns whether the file has only acknowledged ones, or the next start will cut it */
  private async cutBack(): Promise<boolean> {
    try {
      await this.file.truncate(this.sizeBytes);
      await this.file.datasync();
      return true;
    } catch {
      // What the disk holds is unknown: the note decides, if it can be written.
      return this.leaveNote();
    }
  }

  private async leaveNote(): Promise<boolean> {
    const { path, lock } = this.options;
    try {
      const note = await replaceFile(noteOf(path), `${this.sizeBytes}\n`, () => requireFree(lock));
      await note.close();
      return true;
    } catch {
      // The caller reports it to the operator.
      return false;
    }
  }

  private refuseAll(failure: TurnpikeError, reported = failure): void {
    this.failure = failure;
    this.group?.durable.reject(failure);
    this.group = undefined;
    // The lock itself reports its loss.
    if (!this.lost) this.options.onFailure(reported);
  }
}

function unwritable(cause: unknown): Unavailable {
  const why = isDiskFull(cause) ? ": its disk is full" : "";
  return new Unavailable(`The meter's journal cannot be written${why}.`, { cause, retryAfterSec: 30 });
}

const inodeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.ino ?? 0;

function requireFree(lock: JournalOptions["lock"]): void {
  if (lock.isTaken()) throw lock.lose("another process has it");
}
