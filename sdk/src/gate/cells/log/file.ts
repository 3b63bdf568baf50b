/** One generation of a log: a file that any number of processes append to, and the cells that its lines amount to. */
import { closeSync, constants, fdatasync, fstatSync, fsync, openSync, readSync, statSync, writeSync } from "node:fs";
import { isDiskFull } from "../../../file-lock";
import { ConfigError, Unavailable } from "../../../protocol";
import { CellTable, fieldsOf, HEAD_CHARS, type LineChange, swapLine, tailIn } from "./line";

const READ_BYTES = 65_536;

/** Of which no two lines have the same: their checksums and versions differ. */
const LAST_CHARS = 48;

const LOAD_BYTES = 1_024 * 1_024;

/** A swap of this process, as a line of the file. */
export interface OwnSwap {
  readonly id: number;
  readonly changes: readonly LineChange[];
}

/** What a process has just written; `made` takes what became of it. */
interface Own {
  readonly swaps: readonly OwnSwap[];
  readonly text: string;
  readonly made: Map<number, boolean>;
}

export class LogFile {
  readonly generation: number;
  readonly cells: CellTable;
  /** whether its name in the folder is known to be on disk */
  isNamed = false;
  readonly #path: string;
  #fd: number | undefined;
  #buffer = Buffer.allocUnsafe(READ_BYTES);
  /** how long it was when it began */
  readonly #beginsAt: number;
  readonly #identity: { readonly ino: number; readonly dev: number };
  #offset: number;
  #partial = "";
  #last = "";
  #sweptSec: number | undefined;

  private constructor(fd: number, path: string, generation: number, beginsAt: number, carried?: CellTable) {
    this.#fd = fd;
    this.#identity = fstatSync(fd);
    this.#path = path;
    this.generation = generation;
    this.#beginsAt = beginsAt;
    this.cells = carried ?? new CellTable();
    this.#offset = carried ? beginsAt : 0;
  }

  /**
   * Opens a generation, and reads it up to its end.
   * @param kind "first": makes the file, and fails where there is one; "later": fails where there is none, because a
   * deleted generation that came back empty would sell every used payment once more
   * @param before the generation before it, read to its end: its cells are those that this one begins with
   * @returns undefined where it is there, or gone, by another process's doing
   */
  static open(path: string, generation: number, kind: "first" | "later", before?: LogFile): LogFile | undefined {
    const flags = kind === "first" ? constants.O_CREAT | constants.O_EXCL : 0;
    let fd: number;
    try {
      fd = openSync(path, constants.O_RDWR | constants.O_APPEND | flags, 0o600);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === (kind === "first" ? "EEXIST" : "ENOENT")) return undefined;
      throw error;
    }
    const tailAt = kind === "first" ? undefined : tailOf(fd);
    const carriesOver = tailAt !== undefined && before?.generation === generation - 1 && before.#sweptSec !== undefined;
    if (!carriesOver) return new LogFile(fd, path, generation, tailAt ?? 0);
    before.cells.sweep(before.#sweptSec as number).catch(() => undefined);
    return new LogFile(fd, path, generation, tailAt, before.cells);
  }

  /** Reads the whole file. Closes it where that fails. */
  load(): this {
    this.#buffer = Buffer.allocUnsafe(LOAD_BYTES);
    try {
      this.catchUp();
    } catch (error) {
      this.close();
      throw error;
    }
    this.#buffer = Buffer.allocUnsafe(READ_BYTES);
    return this;
  }

  /** Whether its cells were moved to the next generation: lines after that do not count. */
  get isEnded(): boolean {
    return this.#sweptSec !== undefined;
  }

  /** Of the line that ended it: cells that were to be kept until before this moment are left out, unix seconds. */
  get sweptSec(): number | undefined {
    return this.#sweptSec;
  }

  /** Whether more was appended than it began with, and than this many bytes. */
  hasGrownBy(bytes: number): boolean {
    return this.#offset - this.#beginsAt > Math.max(bytes, this.#beginsAt);
  }

  /**
   * Appends swaps in one write, and reads the file up to them.
   * @returns whether each was made; undefined for one that is not in the file: it has ended, or the write has failed
   */
  append(swaps: readonly OwnSwap[]): { readonly made: readonly (boolean | undefined)[]; readonly fault: unknown } {
    const own = { swaps, text: swaps.map(({ id, changes }) => swapLine(id, changes)).join(""), made: new Map() };
    let fault: unknown;
    try {
      this.write(own.text);
    } catch (error) {
      fault = error;
    }
    this.catchUp(own);
    return { made: swaps.map(({ id }) => own.made.get(id)), fault };
  }

  /** Replays what was appended since. @param own what this process has just written */
  catchUp(own?: Own): void {
    while (this.#sweptSec === undefined) {
      const text = this.#read();
      if (text === "") break;
      // Nobody else wrote meanwhile: there is nothing to parse.
      if (text === own?.text && this.#partial === "") {
        for (const { id, changes } of own.swaps) own.made.set(id, this.cells.swap(id, changes));
      } else this.#replay(text, own);
    }
  }

  #replay(text: string, own: Own | undefined): void {
    const lines = (this.#partial + text).split("\n");
    this.#partial = lines.pop() as string;
    // A line is whole by its length: its line break may come with the next one, where the disk was full.
    if (typeof fieldsOf(this.#partial) === "object") {
      lines.push(this.#partial);
      this.#partial = "";
    }
    for (const line of lines) {
      const fields = line === "" ? "torn" : fieldsOf(line);
      if (fields === "torn") continue;
      if (fields === "damaged") throw this.#damaged();
      const done = this.cells.replay(fields);
      if (done?.kind === "end") {
        this.#sweptSec = done.sweptSec;
        return;
      }
      if (done?.kind === "swap") own?.made.set(done.id, done.isMade);
    }
  }

  /** Reads what follows, and what was read last: it is another one where the file was cut off and has grown again. */
  #read(): string {
    const from = this.#offset - this.#last.length;
    const bytes = readSync(this.#handle(), this.#buffer, 0, this.#buffer.length, from);
    const read = this.#buffer.toString("latin1", 0, bytes);
    if (!read.startsWith(this.#last)) throw this.#replaced();
    this.#offset = from + bytes;
    const text = read.slice(this.#last.length);
    if (text !== "") this.#last = this.#buffer.toString("latin1", Math.max(0, bytes - LAST_CHARS), bytes);
    return text;
  }

  /** @throws ConfigError where its name is another file's, or gone: other processes would not see what is in it */
  requireInPlace(): void {
    const { ino, dev } = this.#identity;
    const named = statSync(this.#path, { throwIfNoEntry: false });
    if (named?.ino === ino && named.dev === dev) return;
    // Once it has ended, others delete it.
    this.catchUp();
    if (!this.isEnded) throw this.#replaced();
  }

  /** Appends lines in one write. @throws where the disk took a part of them, of which the last one is void */
  write(lines: string): void {
    const written = writeSync(this.#handle(), lines, null, "latin1");
    // A line is whole without its line break.
    if (written < Math.max(1, lines.length - 1)) throw fullDisk({ code: "ENOSPC" });
  }

  /** Resolves when everything that the file holds now is on disk. */
  sync(): Promise<void> {
    return syncData(this.#handle());
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  #replaced(): ConfigError {
    return new ConfigError(
      `${this.#path} was deleted, cut off or replaced while it was in use: find out why, put back the newest copy, and restart`,
    );
  }

  #damaged(): ConfigError {
    return new ConfigError(
      `${this.#path} is damaged before byte ${this.#offset}: restore it from a backup, or move it away and give up what it held`,
    );
  }

  #handle(): number {
    if (this.#fd === undefined) throw new Unavailable("The store was closed.");
    return this.#fd;
  }
}

export function syncData(fd: number): Promise<void> {
  return new Promise((resolve, reject) => fdatasync(fd, (error) => (error ? reject(error) : resolve())));
}

/** A new name in a folder is on disk only once the folder is. */
export async function syncFolder(folder: string): Promise<void> {
  const fd = openSync(folder, constants.O_RDONLY);
  try {
    await syncEntries(fd);
  } finally {
    closeSync(fd);
  }
}

/** Resolves when the names in an open folder are on disk. */
export function syncEntries(folder: number): Promise<void> {
  return new Promise((resolve, reject) => fsync(folder, (error) => (error ? reject(error) : resolve())));
}

function tailOf(fd: number): number | undefined {
  const head = Buffer.alloc(HEAD_CHARS);
  return readSync(fd, head, 0, HEAD_CHARS, 0) === HEAD_CHARS ? tailIn(head.toString("latin1")) : undefined;
}

/** Writes, on a full disk as often as something is deleted for it. @param freeSpace returns false where nothing is left */
export function withSpace<T>(write: () => T, freeSpace: () => boolean): T {
  for (;;) {
    try {
      return write();
    } catch (error) {
      if (!isDiskFull(error) || !freeSpace()) throw error;
    }
  }
}

export const fullDisk = (cause: unknown): Unavailable =>
  new Unavailable("The store's file cannot be written: its disk is full.", { cause, retryAfterSec: 30 });
