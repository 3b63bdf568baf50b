/**
 * Appends claims to the newest of a folder's files, which other processes append to as well, and follows it to the next
 * one. A file that has grown is rotated: its live records are written to the next one under a lock.
 */
import { join } from "node:path";
import { lockFile } from "../../file-lock";
import { type Hex, Unavailable } from "../../protocol";
import { type ClaimFile, withSpace } from "./claim-file";
import { newestIn, openNewest, writeNext } from "./generations";
import type { ClaimRecord } from "./rules";

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
  #moving: Promise<void> | undefined;
  #newestSec = 0;
  readonly #freeSpace: () => boolean;

  /**
   * @param rotateBytes how much a file may grow beyond its living records
   * @param freeSpace deletes something that claims are worth more than; returns false where nothing is left
   */
  constructor(folder: string, rotateBytes: number, freeSpace: () => boolean) {
    this.#folder = folder;
    this.#freeSpace = freeSpace;
    this.#rotateBytes = rotateBytes;
    this.#file = openNewest(folder);
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
      this.#write(line);
      if (this.#file.catchUp(line)) break;
      // A line after a rotation is void: append it again, to the current file.
      if (this.#file.isRotated) await this.#toNextGeneration();
      else if (tries > MAX_TRIES) throw new Unavailable("The claim file holds another text than was written to it.");
    }
    if (this.#file.grownBytes > this.#rotateBytes) this.#rotateInBackground();
  }

  /** @throws Unavailable when the disk takes nothing */
  async requireWritable(): Promise<void> {
    await this.catchUp();
    // An empty line is none: it shows that the disk takes another byte.
    this.#write("");
  }

  #write(line: string): void {
    withSpace(() => this.#file.write(line), this.#freeSpace);
  }

  async close(): Promise<void> {
    // What a rotation could not do loses nothing.
    await this.#rotation?.catch(() => undefined);
    this.#file.close();
  }

  /** Rotates without making a request wait; a failure (a lock that another process holds) is retried at the next line. */
  #rotateInBackground(): void {
    this.#rotateOnce().catch(() => undefined);
  }

  /** However many requests wait for the next file, one of them makes it. */
  #rotateOnce(): Promise<void> {
    this.#rotation ??= this.#rotate().finally(() => {
      this.#rotation = undefined;
    });
    return this.#rotation;
  }

  #toNextGeneration(): Promise<void> {
    this.#moving ??= this.#follow().finally(() => {
      this.#moving = undefined;
    });
    return this.#moving;
  }

  async #follow(): Promise<void> {
    for (let tries = 0; tries < ROTATION_TRIES; tries++) {
      // A rotation of this process may have opened it meanwhile.
      if (!this.#file.isRotated || this.#openNewer()) return;
      await new Promise((resolve) => setTimeout(resolve, ROTATION_WAIT_MS));
    }
    // The process that began the rotation died in it: what it would have written follows from the file alone.
    await this.#rotateOnce();
  }

  /** The lock spares processes the same work. None relies on it: one that is paused in here loses it. */
  async #rotate(): Promise<void> {
    const lockPath = join(this.#folder, "rotation.lock");
    const onLost = () => undefined;
    const lock = await lockFile(this.#folder, { staleMs: LOCK_STALE_MS, lockPath, onLost });
    if (!lock) throw new Unavailable("Another process is rotating the claim file.");
    try {
      if (this.#openNewer()) return;
      withSpace(() => writeNext(this.#folder, this.#file, this.#newestSec), this.#freeSpace);
      this.#openNewer();
    } finally {
      await lock.release();
    }
  }

  /** @returns whether there was a newer file than the open one */
  #openNewer(): boolean {
    if (newestIn(this.#folder) <= this.#file.generation) return false;
    const newer = openNewest(this.#folder);
    this.#file.close();
    this.#file = newer;
    return true;
  }
}
