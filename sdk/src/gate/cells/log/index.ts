/**
 * Keeps cells in one append-only file that any number of processes on this machine share: **the file's order decides**.
 * A process appends a line with the versions that it expects, reads the file up to it, and sees whether it was made. A
 * single append is atomic on a local file system. Survives the death of any process; of a loss of power what was asked
 * to be durable.
 */
import { closeSync, mkdirSync, openSync, readdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { isDiskFull, lockFile } from "../../../file-lock";
import { ConfigError, isTurnpikeError, type TurnpikeError, Unavailable } from "../../../protocol";
import { type AskedChange, type Cells, isAnswer, type SwapTimes } from "../cells";
import { type FileAnswers, fileAnswers } from "./answers";
import { fullDisk, type LogFile, type OwnSwap, syncEntries, withSpace } from "./file";
import { type LogPlace, newestIn, openNewest, writeNext } from "./generations";
import { endLine, type LineChange } from "./line";

export interface LogOptions extends LogPlace {
  /** how errors name it, such as "claims" */
  readonly what: string;
  /** whether a file in the folder is of an earlier version: this one would not see what was used, and use it again */
  readonly isEarlier?: (file: string) => boolean;
  /** how much a generation may grow beyond what it began with, at least; bytes */
  readonly rotateBytes: number;
  /** how much space answers may take, bytes; the oldest are deleted first */
  readonly answersBytes?: number;
  /** Called once, when the disk has failed; default: a warning. Everything is refused until a restart. */
  readonly onFailure?: ((error: TurnpikeError) => void) | undefined;
}

const ROTATION_WAIT_MS = 10;

/** A live process begins a generation in far less; then the lock is waited for, which shows whether it lives. */
const ROTATION_TRIES = 100;

const MAX_TRIES = 5;

const LOCK_STALE_MS = 5_000;

const IDS = 2 ** 48;

/** NFS, SMB (three numbers), 9p and FUSE: an append may not be atomic, or not be seen by others. */
const REMOTE: ReadonlySet<number> = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997, 0x65735546]);

/** Anything else would damage the line, for everybody. */
const KEY = /^[\x20-\x7e]+$/;

/** How long a generation is not begun again after it could not be: its draft may need what the disk has left. */
const ROTATION_REST_MS = 5_000;

const UNREADABLE: ReadonlySet<string> = new Set(["Internal", "ConfigError"]);

/** A swap that waits for its line, and what takes its answer. */
interface Asked {
  readonly changes: readonly AskedChange[];
  readonly times: SwapTimes;
  readonly resolve: (isMade: boolean) => void;
  readonly reject: (error: unknown) => void;
}

function refuse(asked: readonly Asked[], error: unknown): void {
  for (const { reject } of asked) reject(error);
}

/** A line that is being written; where it is durable, it may not be on disk yet. */
interface SentLine extends OwnSwap {
  readonly asked: Asked;
  /** of its cells, where it is durable */
  readonly before: readonly Before[];
}

const newId = (): number => 1 + Math.floor(Math.random() * (IDS - 1));

/** What brings a cell back, and the version that it had. */
interface Before {
  readonly version: number;
  readonly change: LineChange;
}

/** Opens its file on first use, unless `open` was called before. */
export class LogCells implements Cells {
  readonly isLocal = true;
  readonly #options: LogOptions;
  readonly #answers: FileAnswers;
  #opened: LogFile | undefined;
  /** held open: a moment without free descriptors is no fault of the disk */
  #folder: number | undefined;
  /** monotonic */
  #rotatesFromMs = 0;
  #rotation: Promise<void> | undefined;
  #moving: Promise<void> | undefined;
  #sync: { readonly isStarted: boolean; readonly done: Promise<void> } | undefined;
  readonly #queue: Asked[] = [];
  /** made, durable, and maybe not on disk yet */
  #unsynced: SentLine[] = [];
  #failure: TurnpikeError | undefined;
  #newestSec = 0;
  #isKeeping = true;
  #isClosed = false;

  constructor(options: LogOptions) {
    this.#options = options;
    this.#answers = fileAnswers(options.folder, options.answersBytes ?? 0);
  }

  /** @throws ConfigError when the folder cannot be used */
  open(): LogFile {
    const { folder, what, isEarlier } = this.#options;
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      if (REMOTE.has(statfsSync(folder).type >>> 0)) {
        throw new ConfigError(
          `${what}: the folder ${folder} is on a network or FUSE file system, where processes may not see each other's writes; name one on a local disk, or a shared store`,
        );
      }
      const found = isEarlier && readdirSync(folder).find(isEarlier);
      if (found !== undefined) {
        throw new ConfigError(
          `${what}: ${join(folder, found)} is of an earlier version; stop its gates and run \`npx turnpike store import ${folder}\``,
        );
      }
      this.#folder ??= openSync(folder, "r");
      this.#opened = openNewest(this.#options);
      return this.#opened;
    } catch (cause) {
      if (isTurnpikeError(cause)) throw cause;
      const remedy = isDiskFull(cause) ? "its disk is full: free some space on it" : "name another, or a shared store";
      throw new ConfigError(`${what}: the folder ${folder} cannot be written; ${remedy}`, { cause });
    }
  }

  get #file(): LogFile {
    return this.#opened ?? this.open();
  }

  async nowMs(): Promise<number> {
    return Date.now();
  }

  requireHealthy(): void {
    if (this.#failure) throw this.#failure;
  }

  read(keys: readonly string[], nowMs = Date.now()): Promise<(string | undefined)[]> {
    return this.#guarded(() => this.#current(() => keys.map((key) => this.#textOf(key, nowMs))));
  }

  /** Swaps of one turn of the event loop share one write. */
  swap(changes: readonly AskedChange[], times: SwapTimes = {}): Promise<boolean> {
    this.#newestSec = Math.max(this.#newestSec, times.nowSec ?? 0);
    return this.#guarded(
      () =>
        new Promise((resolve, reject) => {
          if (changes.some(({ key }) => !KEY.test(key))) throw new TypeError("A key is printable ASCII.");
          const length = this.#queue.push({ changes, times, resolve, reject });
          if (length === 1) setImmediate(() => void this.#send(this.#queue.splice(0)));
        }),
    );
  }

  async #send(asked: readonly Asked[]): Promise<void> {
    await this.#current(() => this.#write(asked)).catch((error) => refuse(asked, error));
  }

  /** In one turn, so that no other change of this process comes between a look and its line. */
  #write(all: readonly Asked[]): void {
    let asked = all;
    for (let tries = 0; asked.length > 0; tries++) {
      const sent = this.#linesOf(asked, tries === 0);
      const { made, fault } = this.#file.append(sent);
      if (!this.#file.isEnded) this.#file.requireInPlace();
      sent.forEach((line, i) => void this.#answer(line, made[i]));
      asked = sent.flatMap((line, i) => (made[i] === undefined ? line.asked : []));
      if (asked.length === 0) break;
      if (this.#file.isEnded) {
        // A line after the end of a generation is void: it goes to the next one.
        void this.#send(asked);
        return;
      }
      if (fault !== undefined && isDiskFull(fault) && this.#answers.removeOldest()) continue;
      if (fault === undefined && tries <= MAX_TRIES) continue;
      refuse(asked, fault ?? new Unavailable("The store's file holds another text than was written to it."));
      return;
    }
    if (this.#file.hasGrownBy(this.#options.rotateBytes)) this.#rotateInBackground();
  }

  /**
   * Returns the lines of what can be made now, each on top of those before it; what differs is answered.
   * @param keepsAnswers not again where answers are deleted for the lines
   */
  #linesOf(all: readonly Asked[], keepsAnswers: boolean): SentLine[] {
    const { cells } = this.#file;
    const ahead = new Map<string, { readonly text: string | undefined; readonly version: number }>();
    const sent: SentLine[] = [];
    for (const asked of all) {
      const { changes, times } = asked;
      const at = changes.map(({ key }) => ahead.get(key) ?? cells.find(key));
      if (changes.some(({ key, expected }, i) => !isAnswer(key) && at[i]?.text !== expected)) {
        asked.resolve(false);
        continue;
      }
      const id = newId();
      for (const change of keepsAnswers ? changes.filter(({ key }) => isAnswer(key)) : []) {
        this.#keepAnswer(change, id, times.nowMs ?? Date.now());
      }
      const lineChanges = changes.map(({ key, next, listed, untilSec = 0 }, i): LineChange => {
        if (isAnswer(key)) return { key, expected: undefined, text: "", isListed: undefined, untilSec };
        return { key, expected: at[i]?.version ?? 0, text: next, isListed: listed, untilSec };
      });
      const before = times.isDurable ? changes.map(({ key }, i) => this.#asItIs(key, at[i])) : [];
      for (const { key, text } of lineChanges) ahead.set(key, { text, version: text === undefined ? 0 : id });
      sent.push({ id, changes: lineChanges, asked, before });
    }
    return sent;
  }

  #answer(line: SentLine, isMade: boolean | undefined): void {
    const { asked } = line;
    if (isMade && asked.times.isDurable) {
      this.#unsynced.push(line);
      this.#synced().then(() => asked.resolve(true), asked.reject);
    } else if (isMade !== undefined) asked.resolve(isMade);
  }

  listed(): Promise<{ readonly key: string; readonly text: string }[]> {
    const texts = () => {
      const { cells } = this.#file;
      return [...cells.listed].flatMap((key) => {
        const cell = cells.find(key);
        return cell ? [{ key, text: cell.text }] : [];
      });
    };
    return this.#guarded(() => this.#current(texts));
  }

  async replicated(): Promise<void> {}

  checked<T>(check: () => Promise<T>): Promise<T> {
    return check();
  }

  ready(): Promise<void> {
    // An empty line is none: it shows that the disk takes another byte.
    const write = () => withSpace(() => this.#file.write("\n"), this.#answers.removeOldest);
    return this.#guarded(() => this.#current(write));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    while (this.#queue.length > 0) await new Promise((resolve) => setImmediate(resolve));
    await this.#sync?.done.catch(() => undefined);
    // What a rotation could not do loses nothing.
    await this.#rotation?.catch(() => undefined);
    this.#opened?.close();
    if (this.#folder !== undefined) closeSync(this.#folder);
    this.#folder = undefined;
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    if (this.#failure) throw this.#failure;
    if (this.#isClosed) throw new Unavailable("The store was closed.");
    // A folder that cannot be used is a setting's fault, and none of what a file holds.
    if (!this.#opened) this.open();
    try {
      return await work();
    } catch (cause) {
      if (isTurnpikeError(cause)) {
        // Of a line that is not known here, or damaged, what it does is not known either.
        if (UNREADABLE.has(cause.code)) this.#fail(new Unavailable(cause.message, { cause, retryAfterSec: 30 }), cause);
        throw this.#failure ?? cause;
      }
      throw isDiskFull(cause) ? fullDisk(cause) : new Unavailable("The store's file cannot be used.", { cause });
    }
  }

  #textOf(key: string, nowMs: number): string | undefined {
    const cell = this.#file.cells.find(key);
    if (cell === undefined) return undefined;
    return isAnswer(key) ? this.#answers.find({ key, version: cell.version }, nowMs) : cell.text;
  }

  /** Returns the change that brings a cell back to what it is now. */
  #asItIs(key: string, now: { readonly text: string | undefined; readonly version: number } | undefined): Before {
    const { cells } = this.#file;
    const untilSec = cells.find(key)?.untilSec ?? 0;
    const isListed = cells.listed.has(key);
    return { version: now?.version ?? 0, change: { key, expected: undefined, text: now?.text, isListed, untilSec } };
  }

  /** An answer that cannot be kept is not replayed; its payment is used nevertheless. */
  #keepAnswer({ key, next = "", keepSec = 0 }: AskedChange, version: number, nowMs: number): void {
    try {
      this.#answers.keep({ key, version }, { text: next, nowMs, untilMs: nowMs + keepSec * 1_000 });
      this.#isKeeping = true;
    } catch (cause) {
      const { what, folder } = this.#options;
      const why = isDiskFull(cause) ? "its disk is full" : (cause as Error).message;
      if (this.#isKeeping) process.emitWarning(`${what}: answers cannot be kept in ${folder}: ${why}`);
      this.#isKeeping = false;
    }
  }

  /** Does work in the turn in which everything was read that other processes have appended. */
  async #current<T>(work: () => T): Promise<T> {
    for (;;) {
      this.#file.catchUp();
      if (!this.#file.isEnded) return work();
      await this.#toNextGeneration();
    }
  }

  /** Resolves when what was appended so far is on disk; changes that wait for a sync under way share the next one. */
  #synced(): Promise<void> {
    const current = this.#sync;
    if (current && !current.isStarted) return current.done;
    const next = { isStarted: false, done: this.#syncAfter(current?.done, () => (next.isStarted = true)) };
    this.#sync = next;
    return next.done;
  }

  async #syncAfter(before: Promise<void> | undefined, onStart: () => void): Promise<void> {
    // Changes of this turn of the event loop share it, too. A failure is reported to those that it concerns.
    await (before ?? new Promise<void>((resolve) => setImmediate(resolve)));
    onStart();
    const covered = this.#unsynced.length;
    const file = this.#file;
    try {
      await file.sync();
      if (!file.isNamed) await syncEntries(this.#folder as number);
      file.isNamed = true;
    } catch (cause) {
      throw this.#failed(cause);
    }
    this.#unsynced.splice(0, covered);
  }

  /** The disk has failed: takes back what was refused, so that no later start counts it. */
  #failed(cause: unknown): TurnpikeError {
    if (this.#failure) return this.#failure;
    const why = isDiskFull(cause) ? ": its disk is full" : "";
    const failure = new Unavailable(`The store's file cannot be written${why}.`, { cause, retryAfterSec: 30 });
    const { folder, name } = this.#options;
    const kept = this.#takeBack();
    this.#leaveFile();
    this.#fail(
      failure,
      kept === 0
        ? failure
        : new ConfigError(
            `${kept} changes that were refused could not be taken back from the log ${name} in ${folder}: what they charge is debited`,
            { cause },
          ),
    );
    return failure;
  }

  #fail(failure: TurnpikeError, reported: TurnpikeError = failure): void {
    if (this.#failure) return;
    this.#failure = failure;
    const { onFailure = (error: TurnpikeError) => process.emitWarning(error) } = this.#options;
    onFailure(reported);
  }

  /** Brings cells back to what they were before this process's refused changes. @returns how many it could not */
  #takeBack(): number {
    const first = new Map<string, LineChange>();
    const own = new Map<string, number>();
    let kept = 0;
    for (const { id, before } of this.#unsynced) {
      for (const { version, change } of before) {
        const { key } = change;
        // What another process has changed on top of an earlier one stays, and that earlier one with it.
        if (own.has(key) && own.get(key) !== version) kept++;
        if (own.get(key) !== version) first.set(key, change);
        own.set(key, id);
      }
    }
    for (const [key, change] of first) {
      try {
        const { made } = this.#file.append([{ id: newId(), changes: [{ ...change, expected: own.get(key) }] }]);
        if (made[0] !== true) kept++;
      } catch {
        kept++;
      }
    }
    this.#unsynced = [];
    return kept;
  }

  /**
   * Ends the generation. The system may hold lines that never come to the disk, though later syncs succeed: a process
   * that goes on writes what it reads here to another file first.
   */
  #leaveFile(): void {
    try {
      this.#file.write(endLine(this.#newestSec));
    } catch {
      // A disk that takes no line here takes none of any other process.
    }
  }

  /** Begins a generation without making a caller wait; a failure (a lock of another process) is retried later. */
  #rotateInBackground(): void {
    if (performance.now() < this.#rotatesFromMs) return;
    this.#rotateOnce().catch(() => {
      this.#rotatesFromMs = performance.now() + ROTATION_REST_MS;
    });
  }

  /** However many callers wait for the next generation, one of them begins it. */
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
      if (!this.#file.isEnded || this.#openNewer()) return;
      await new Promise((resolve) => setTimeout(resolve, ROTATION_WAIT_MS));
    }
    // The process that ended the generation died in it: what it would have written follows from the file alone.
    await this.#rotateOnce();
  }

  /** The lock spares processes the same work. None relies on it: one that is paused in here loses it. */
  async #rotate(): Promise<void> {
    const { folder, name } = this.#options;
    const lock = await lockFile(join(folder, name), { staleMs: LOCK_STALE_MS, onLost: () => undefined });
    if (!lock) throw new Unavailable("Another process begins the next generation of the store's file.");
    try {
      if (this.#openNewer()) return;
      await writeNext(this.#options, this.#file, this.#newestSec, this.#answers.removeOldest);
      this.#openNewer();
    } finally {
      await lock.release();
    }
  }

  /** @returns whether there was a newer file than the open one */
  #openNewer(): boolean {
    const before = this.#file;
    if (newestIn(this.#options) <= before.generation) return false;
    this.#opened = openNewest(this.#options, before);
    // A sync of it may be under way.
    void (this.#sync?.done ?? Promise.resolve()).catch(() => undefined).then(() => before.close());
    return true;
  }
}
