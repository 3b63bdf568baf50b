/**
 * Reads and appends one file of claims, which other processes append to as well. What it has read of it is replayed into
 * `records`, up to a rotation.
 */
import { closeSync, openSync, readdirSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type Hex, Unavailable } from "../../protocol";
import { ROTATED, replayLine } from "./claim-line";
import type { ClaimRecord } from "./rules";

const FILE = /^claims-([0-9]{1,9})\.log$/;

const READ_BYTES = 65_536;

export const pathOfGeneration = (folder: string, generation: number): string =>
  join(folder, `claims-${generation}.log`);

export function generationsIn(folder: string): number[] {
  return readdirSync(folder)
    .flatMap((name) => FILE.exec(name)?.[1] ?? [])
    .map(Number);
}

export class ClaimFile {
  readonly generation: number;
  readonly records = new Map<Hex, ClaimRecord>();
  readonly #buffer = Buffer.alloc(READ_BYTES);
  readonly #openedAtBytes: number;
  #fd: number | undefined;
  #offset = 0;
  #partial = "";
  #isRotated = false;

  /** Opens a generation's file, creates it when absent, and reads it. */
  constructor(folder: string, generation: number) {
    this.generation = generation;
    this.#fd = openSync(pathOfGeneration(folder, generation), "a+", 0o600);
    try {
      this.catchUp();
    } catch (error) {
      this.close();
      throw error;
    }
    this.#openedAtBytes = this.#offset;
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

  /** Appends a line in one write. @returns whether the disk took the whole line */
  write(line: string): boolean {
    const text = `\n${line}`;
    return writeSync(this.#handle(), text, null, "latin1") === text.length;
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
