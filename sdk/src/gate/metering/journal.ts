/**
 * Writes an append-only file whose lines are durable before `append` resolves: entries that arrive during a write share
 * the next write and fsync (group commit). Compacts itself into one snapshot. Of the entries' meaning it knows only
 * that reservations of one subscription in one group add up.
 */
import { type FileHandle, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { ConfigError, type TurnpikeError, Unavailable } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type Deferred, deferred } from "../../protocol/waiting";
import type { Entry } from "./books";
import { decodeLines, encodeLine, type Line, type SnapshotEntry } from "./entry-line";

const NOTE = /^([0-9]{1,15})\n$/;

const noteOf = (path: string): string => `${path}.repair`;

/** Cuts off refused entries. @returns whether the file has only acknowledged entries, or the next start will cut it */
export async function cutBack(file: FileHandle, path: string, wholeBytes: number): Promise<boolean> {
  try {
    await file.truncate(wholeBytes);
    await file.datasync();
    return true;
  } catch {
    // What the disk holds is unknown: the note decides, if it can be written.
    return leaveNote(path, wholeBytes);
  }
}

async function leaveNote(path: string, wholeBytes: number): Promise<boolean> {
  try {
    const note = await open(noteOf(path), "w", 0o600);
    try {
      await note.writeFile(`${wholeBytes}\n`);
      await note.sync();
    } finally {
      await note.close();
    }
    await syncFolder(path);
    return true;
  } catch {
    // The caller reports it to the operator.
    return false;
  }
}

/** Cuts off what a note says. @throws Unavailable while that fails; ConfigError for a note that cannot be read */
export async function repair(file: FileHandle, path: string): Promise<void> {
  const note = await readFile(noteOf(path), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (note === undefined) return;
  const wholeBytes = NOTE.exec(note)?.[1];
  if (wholeBytes === undefined) {
    throw new ConfigError(
      `${noteOf(path)} is damaged: the end of the meter's journal may hold calls that were refused. Remove the note to charge them nevertheless.`,
    );
  }
  try {
    const { size } = await file.stat();
    if (size > Number(wholeBytes)) await file.truncate(Number(wholeBytes));
    await file.datasync();
    await rm(noteOf(path));
    await syncFolder(path);
  } catch (cause) {
    throw new Unavailable("The meter's journal must be repaired before it is used, and the repair failed.", {
      cause,
      retryAfterSec: 30,
    });
  }
}

/** A new name in a folder is durable only once the folder is. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

export interface JournalOptions {
  readonly path: string;
  /** returns the current books, with everything appended so far */
  readonly snapshot: () => SnapshotEntry;
  /** bytes after which the file is replaced by a snapshot */
  readonly compactAtBytes: number;
  readonly onFailure: (error: TurnpikeError) => void;
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
  private compactAtBytes: number;

  private constructor(
    private readonly options: JournalOptions,
    private file: FileHandle,
    private sizeBytes: number,
  ) {
    this.compactAtBytes = options.compactAtBytes;
  }

  /** Opens the file, passes each entry to `onLine`, and cuts off a half-written end. */
  static async open(options: JournalOptions, onLine: (line: Line) => void): Promise<Journal> {
    const file = await open(options.path, "a+", 0o600);
    try {
      await repair(file, options.path);
      const bytes = await readFile(options.path);
      const { lines, wholeBytes } = decodeLines(bytes);
      if (wholeBytes < bytes.length) {
        await file.truncate(wholeBytes);
        await file.datasync();
      }
      if (bytes.length === 0) await syncFolder(options.path);
      for (const line of lines) onLine(line);
      return new Journal(options, file, wholeBytes);
    } catch (error) {
      await file.close();
      throw error;
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
        await this.appendLines(group.lines);
      } catch (cause) {
        await this.fail(cause, group);
        break;
      }
      group.durable.resolve();
      if (snapshot !== undefined && !(await this.compact(Buffer.from(snapshot)))) break;
    }
    this.writing = undefined;
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
    const { path } = this.options;
    try {
      await writeWhole(`${path}.new`, bytes);
    } catch {
      // Retried when the file has doubled.
      this.compactAtBytes = 2 * this.sizeBytes;
      return true;
    }
    try {
      await rename(`${path}.new`, path);
      await syncFolder(path);
      await this.file.close();
      this.file = await open(path, "a+", 0o600);
    } catch (cause) {
      this.refuseAll(new Unavailable("The meter's journal cannot be replaced.", { cause, retryAfterSec: 30 }));
      return false;
    }
    this.sizeBytes = bytes.length;
    // Large books are not written again for every group.
    this.compactAtBytes = Math.max(this.options.compactAtBytes, 2 * bytes.length);
    return true;
  }

  /** Rejects a group whose write failed, and removes its entries, so that no later start replays them. */
  private async fail(cause: unknown, group: Group): Promise<void> {
    const { path } = this.options;
    const failure = new Unavailable("The meter's journal cannot be written.", { cause, retryAfterSec: 30 });
    this.failure = failure;
    const isSafe = await cutBack(this.file, path, this.sizeBytes);
    group.durable.reject(failure);
    const remedy = `Cut ${path} to ${this.sizeBytes} bytes before the next start: what follows was refused, and would be charged.`;
    this.refuseAll(failure, isSafe ? failure : new ConfigError(remedy, { cause }));
  }

  private refuseAll(failure: TurnpikeError, reported = failure): void {
    this.failure = failure;
    this.group?.durable.reject(failure);
    this.group = undefined;
    this.options.onFailure(reported);
  }
}

async function writeWhole(path: string, bytes: Buffer): Promise<void> {
  const file = await open(path, "w", 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}
