/**
 * Appends claims to the newest of a folder's files, which other processes append to as well, and replays what it reads
 * of that file into records, up to a rotation. A file that has grown is rotated: its live records are written to the
 * next one under a lock.
 */
import { closeSync, openSync, readdirSync, readSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { lockFile } from "../../file-lock";
import { type Hex, Unavailable } from "../../protocol";
import { lineOfRecord, ROTATED, replayLine } from "./claim-line";
import { forget } from "./memory";
import type { ClaimRecord } from "./rules";

const FILE = /^claims-([0-9]{1,9})\.log$/;

const READ_BYTES = 65_536;

const pathOfGeneration = (folder: string, generation: number): string => join(folder, `claims-${generation}.log`);

function generationsIn(folder: string): number[] {
  return readdirSync(folder)
    .flatMap((name) => FILE.exec(name)?.[1] ?? [])
    .map(Number);
}

/** One file. What it has read of it is replayed into `records`, up to a rotation. */
class ClaimFile {
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

const ROTATION_WAIT_MS = 10;

/** A live process rotates in far less; then the lock is waited for, which shows whether it lives. */
const ROTATION_TRIES = 100;

const MAX_TRIES = 5;

const LOCK_STALE_MS = 5_000;

export class ClaimLog {
  readonly #folder: string;
  readonly #rotateBytes: number;
  #file: ClaimFile;
  #rotation: Promise<void> | undefined;
  #newestSec = 0;

  /** @param rotateBytes how much a file may grow beyond its living records */
  constructor(folder: string, rotateBytes: number) {
    this.#folder = folder;
    this.#rotateBytes = rotateBytes;
    this.#file = new ClaimFile(folder, Math.max(0, ...generationsIn(folder)));
  }

  record(paymentId: Hex): ClaimRecord | undefined {
    return this.#file.records.get(paymentId);
  }

  /** Records that expired before this moment are left out of the next rotation. */
  observe(nowSec: number): void {
    this.#newestSec = Math.max(this.#newestSec, nowSec);
  }

  /** Reads what other processes appended. @returns a promise where the next file is waited for */
  catchUp(): Promise<void> | undefined {
    this.#file.catchUp();
    return this.#file.isRotated ? this.#toNextGeneration() : undefined;
  }

  /** Appends a line, and reads the file up to it. @throws Unavailable */
  async append(line: string): Promise<void> {
    for (let tries = 0; ; tries++) {
      const isWhole = this.#file.write(line);
      if (this.#file.catchUp(line)) break;
      // A line after a rotation is void, and so is a torn one: append it again, to the current file.
      if (this.#file.isRotated) await this.#toNextGeneration();
      else if (!isWhole || tries > MAX_TRIES) throw cannotWrite();
    }
    if (this.#file.grownBytes > this.#rotateBytes) this.#rotateInBackground();
  }

  /** @throws Unavailable when the disk takes nothing */
  requireWritable(): void {
    // An empty line is none: it shows that the disk takes another byte.
    if (!this.#file.write("")) throw cannotWrite();
  }

  async close(): Promise<void> {
    await this.#rotation;
    this.#file.close();
  }

  /**
   * Rotates without making a request wait; a failure (a lock that another process holds) is retried at the next line.
   */
  #rotateInBackground(): void {
    this.#rotation ??= this.#rotate()
      .catch(() => undefined)
      .finally(() => {
        this.#rotation = undefined;
      });
  }

  async #toNextGeneration(): Promise<void> {
    for (let tries = 0; tries < ROTATION_TRIES; tries++) {
      // Another call of this process may have opened it meanwhile.
      if (!this.#file.isRotated || this.#openNewest()) return;
      await new Promise((resolve) => setTimeout(resolve, ROTATION_WAIT_MS));
    }
    // The process that began the rotation died in it: what it would have written follows from the file alone.
    await this.#rotate();
  }

  async #rotate(): Promise<void> {
    const lockPath = join(this.#folder, "rotation.lock");
    const lock = await lockFile(this.#folder, { staleMs: LOCK_STALE_MS, lockPath });
    if (!lock) throw new Unavailable("Another process is rotating the claim file.");
    try {
      if (this.#openNewest()) return;
      const { generation, records } = this.#file;
      if (!this.#file.isRotated) this.#file.write(ROTATED);
      this.#file.catchUp();
      forget(records, this.#newestSec);
      const living = [...records].map(([id, record]) => lineOfRecord(id, record)).join("\n");
      const next = pathOfGeneration(this.#folder, generation + 1);
      writeFileSync(`${next}.new`, living, { mode: 0o600, flush: true });
      renameSync(`${next}.new`, next);
      rmSync(pathOfGeneration(this.#folder, generation - 1), { force: true });
      this.#open(generation + 1);
    } finally {
      await lock.release();
    }
  }

  /** @returns whether there was a newer file than the open one */
  #openNewest(): boolean {
    const newest = Math.max(...generationsIn(this.#folder));
    if (newest <= this.#file.generation) return false;
    this.#open(newest);
    return true;
  }

  #open(generation: number): void {
    const next = new ClaimFile(this.#folder, generation);
    this.#file.close();
    this.#file = next;
  }
}

function cannotWrite(): Unavailable {
  return new Unavailable("The claim file cannot be written: is the disk full?");
}
