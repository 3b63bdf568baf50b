/** One file of claims, which any number of processes append to, and the records that its lines amount to. */
import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { isDiskFull } from "../../file-lock";
import { type Hex, Unavailable } from "../../protocol";
import { ROTATED, replayLine } from "./claim-line";
import type { ClaimRecord } from "./rules";

const READ_BYTES = 65_536;

/** What it has read of its file is replayed into `records`, up to a rotation. */
export class ClaimFile {
  readonly generation: number;
  readonly records = new Map<Hex, ClaimRecord>();
  readonly #buffer = Buffer.alloc(READ_BYTES);
  #fd: number | undefined;
  #openedAtBytes = 0;
  #offset = 0;
  #partial = "";
  #isRotated = false;

  private constructor(fd: number, generation: number) {
    this.#fd = fd;
    this.generation = generation;
  }

  /**
   * Opens a generation's file, and reads nothing yet.
   * @param kind "first": makes the file, and fails where there is one; "later": fails where there is none, because a
   * deleted generation that came back empty would sell every used payment once more
   * @returns undefined where it is there, or gone, by another process's doing
   */
  static open(path: string, generation: number, kind: "first" | "later"): ClaimFile | undefined {
    const flags = kind === "first" ? constants.O_CREAT | constants.O_EXCL : 0;
    try {
      return new ClaimFile(openSync(path, constants.O_RDWR | constants.O_APPEND | flags, 0o600), generation);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === (kind === "first" ? "EEXIST" : "ENOENT")) return undefined;
      throw error;
    }
  }

  /** Reads the whole file, up to a rotation. Closes it where that fails. */
  load(): this {
    try {
      this.catchUp();
    } catch (error) {
      this.close();
      throw error;
    }
    this.#openedAtBytes = this.#offset;
    return this;
  }

  /** Whether its records were moved to the next generation: lines after that do not count. */
  get isRotated(): boolean {
    return this.#isRotated;
  }

  /** How much it has grown since it was opened. */
  get grownBytes(): number {
    return this.#offset - this.#openedAtBytes;
  }

  /** Replays what was appended since, up to a rotation. @returns whether `own` was among it */
  catchUp(own?: string): boolean {
    let found = false;
    while (!this.#isRotated) {
      const bytes = readSync(this.#handle(), this.#buffer, 0, READ_BYTES, this.#offset);
      if (bytes === 0) break;
      this.#offset += bytes;
      for (const line of this.#linesOf(bytes)) {
        if (line === ROTATED) {
          this.#isRotated = true;
          break;
        }
        if (line === own) found = true;
        replayLine(this.records, line);
      }
    }
    return found;
  }

  /** Appends a line in one write. @throws Unavailable where the disk took a part of it, which is void */
  write(line: string): void {
    const text = `\n${line}`;
    if (writeSync(this.#handle(), text, null, "latin1") < text.length) throw fullDisk({ code: "ENOSPC" });
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  #linesOf(bytes: number): string[] {
    const lines = (this.#partial + this.#buffer.toString("latin1", 0, bytes)).split("\n");
    this.#partial = lines.pop() ?? "";
    // A line is complete with its `;`: the last one has no line break after it until the next is written.
    if (this.#partial.endsWith(";")) {
      lines.push(this.#partial.trimEnd());
      this.#partial = "";
    }
    return lines;
  }

  #handle(): number {
    if (this.#fd === undefined) throw new Unavailable("The claim store was closed.");
    return this.#fd;
  }
}

/** Writes, on a full disk as often as something is deleted for it. @param freeSpace returns false where nothing is left */
export function withSpace(write: () => void, freeSpace: () => boolean): void {
  for (;;) {
    try {
      write();
      return;
    } catch (error) {
      if (!isDiskFull(error) || !freeSpace()) throw error;
    }
  }
}

export const fullDisk = (cause: unknown): Unavailable =>
  new Unavailable("The claim file cannot be written: its disk is full.", { cause });
