/**
 * Keeps claims in one append-only file that any number of processes on this machine share: **the file's order
 * decides**. A process appends a line, reads the file up to it, and sees whether an earlier line holds the claim. A
 * single append is atomic on a local file system (not on NFS). A file that has grown is rotated: its live records are
 * written to the next one under a lock. Survives the death of any process, not a loss of power within the last moments.
 */
import {
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { lock } from "proper-lockfile";
import { ConfigError, type Hex, isHash32, isTurnpikeError, randomBytes, toHex, Unavailable } from "../../protocol";
import { lineOfAct, lineOfRecord, ROTATED, replayLine } from "./claim-line";
import { fileAnswers } from "./file-answers";
import { forget } from "./memory";
import { applyClaim, type ClaimAct, type ClaimRecord, type ClaimStore, isHeldAfter, outcomeFor } from "./rules";

export interface FileClaimsOptions {
  /** created when absent, readable by its owner only */
  readonly folder: string;
  /** how much a file may grow beyond its living records; default 16 MiB */
  readonly rotateBytes?: number;
}

const FILE = /^claims-([0-9]{1,9})\.log$/;

const GRANT_KEY_FILE = "grant.key";

const READ_BYTES = 65_536;

const ROTATION_WAIT_MS = 10;

const ROTATION_TRIES = 500;

const MAX_TRIES = 5;

/** Waits a little longer than a dead holder's lock stays valid. */
const LOCK = { stale: 5_000, retries: { retries: 60, minTimeout: 50, maxTimeout: 200 } };

/** @throws ConfigError when the folder cannot be used */
export function fileClaims({ folder, rotateBytes = 16 * 1_024 * 1_024 }: FileClaimsOptions): ClaimStore {
  const records = new Map<Hex, ClaimRecord>();
  const answers = fileAnswers(folder);
  const buffer = Buffer.alloc(READ_BYTES);
  let generation = 0;
  let file: number | undefined;
  let offset = 0;
  let openedAtBytes = 0;
  let partial = "";
  let rotated = false;
  let newestSec = 0;
  let rotation: Promise<void> | undefined;
  let grantKey: Hex | undefined;

  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    open(Math.max(0, ...generationsIn(folder)));
  } catch (cause) {
    throw new ConfigError(`claims: the folder ${folder} cannot be written; name another, or a shared store`, { cause });
  }

  function open(next: number): void {
    if (file !== undefined) closeSync(file);
    generation = next;
    file = openSync(join(folder, `claims-${next}.log`), "a+", 0o600);
    offset = 0;
    partial = "";
    rotated = false;
    records.clear();
    catchUp();
    openedAtBytes = offset;
  }

  /** Replays what was appended since, up to a rotation. @returns whether `own` was among it */
  function catchUp(own?: string): boolean {
    let found = false;
    while (!rotated) {
      const bytes = readSync(handle(), buffer, 0, READ_BYTES, offset);
      if (bytes === 0) break;
      offset += bytes;
      const lines = (partial + buffer.toString("latin1", 0, bytes)).split("\n");
      partial = lines.pop() ?? "";
      // A line is complete with its `;`: the last one has no line break after it until the next is written.
      if (partial.endsWith(";")) lines.push(partial.trimEnd());
      if (partial.endsWith(";")) partial = "";
      for (const line of lines) {
        if (line === ROTATED) {
          rotated = true;
          break;
        }
        if (line === own) found = true;
        replayLine(records, line);
      }
    }
    return found;
  }

  function handle(): number {
    if (file === undefined) throw new Unavailable("The claim store was closed.");
    return file;
  }

  async function append(line: string): Promise<void> {
    for (let tries = 0; ; tries++) {
      const text = `\n${line}`;
      const written = writeSync(handle(), text, null, "latin1");
      if (catchUp(line)) break;
      // A line after a rotation is void, and so is a torn one: append it again, to the current file.
      if (rotated) await toNextGeneration();
      else if (written < text.length || tries > MAX_TRIES)
        throw new Unavailable("The claim file cannot be written: is the disk full?");
    }
    if (offset - openedAtBytes > rotateBytes) rotateInBackground();
  }

  /**
   * Rotates without making a request wait; a failure (a lock that another process holds) is retried at the next line.
   */
  function rotateInBackground(): void {
    rotation ??= rotate()
      .catch(() => undefined)
      .finally(() => {
        rotation = undefined;
      });
  }

  async function toNextGeneration(): Promise<void> {
    for (let tries = 0; tries < ROTATION_TRIES; tries++) {
      const newest = Math.max(...generationsIn(folder));
      if (newest > generation) return open(newest);
      await new Promise((resolve) => setTimeout(resolve, ROTATION_WAIT_MS));
    }
    // The process that began the rotation died in it: what it would have written follows from the file alone.
    await rotate();
  }

  async function rotate(): Promise<void> {
    const unlock = await lock(folder, { lockfilePath: join(folder, "rotation.lock"), ...LOCK });
    try {
      const newest = Math.max(...generationsIn(folder));
      if (newest > generation) return open(newest);
      if (!rotated) writeSync(handle(), `\n${ROTATED}`, null, "latin1");
      catchUp();
      forget(records, newestSec);
      const living = [...records].map(([id, record]) => lineOfRecord(id, record)).join("\n");
      const next = join(folder, `claims-${generation + 1}.log`);
      writeFileSync(`${next}.new`, living, { mode: 0o600, flush: true });
      renameSync(`${next}.new`, next);
      rmSync(join(folder, `claims-${generation - 1}.log`), { force: true });
      open(generation + 1);
    } finally {
      await unlock();
    }
  }

  async function guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      if (isTurnpikeError(cause)) throw cause;
      throw new Unavailable("The claim file cannot be used.", { cause });
    }
  }

  /** Returns whether an act changes nothing: presenting a used proof again costs no line. */
  const changesNothing = (paymentId: Hex, act: ClaimAct): boolean => {
    const record = records.get(paymentId);
    return record !== undefined && applyClaim(record, act) === record;
  };

  /** An answer that cannot be kept is not replayed; its payment is used nevertheless. */
  function keepAnswer(...kept: Parameters<typeof answers.keep>): void {
    try {
      answers.keep(...kept);
    } catch (cause) {
      process.emitWarning(`claims: answers cannot be kept in ${folder}: ${(cause as Error).message}`);
    }
  }

  return {
    claim(paymentId, act, nowSec) {
      return guarded(async () => {
        newestSec = Math.max(newestSec, nowSec);
        catchUp();
        if (rotated) await toNextGeneration();
        if (!changesNothing(paymentId, act)) await append(lineOfAct(paymentId, act));
        return outcomeFor(act.owner, records.get(paymentId), act.nowMs);
      });
    },
    apply(paymentId, act, answer) {
      return guarded(async () => {
        if (act.act === "use" && answer) keepAnswer({ paymentId, owner: act.owner }, answer);
        await append(lineOfAct(paymentId, act));
        return isHeldAfter(act, records.get(paymentId));
      });
    },
    grantKey() {
      return guarded(async () => (grantKey ??= readGrantKey(folder)));
    },
    served(paymentId, nowMs) {
      return guarded(async () => {
        catchUp();
        if (rotated) await toNextGeneration();
        const record = records.get(paymentId);
        if (record?.state !== "used") return undefined;
        return { answer: answers.find({ paymentId, owner: record.owner }, nowMs) };
      });
    },
    ready() {
      return guarded(async () => {
        // An empty line is none: it shows that the disk takes another byte.
        if (writeSync(handle(), "\n", null, "latin1") !== 1)
          throw new Unavailable("The claim file cannot be written: is the disk full?");
      });
    },
    async close() {
      await rotation;
      if (file !== undefined) closeSync(file);
      file = undefined;
    },
  };
}

/** Reads the grant key. The first process creates it for all: a hard link is created whole, or not at all. */
function readGrantKey(folder: string): Hex {
  const path = join(folder, GRANT_KEY_FILE);
  if (!existsSync(path)) {
    const made = `${path}.${process.pid}.${toHex(randomBytes(8))}`;
    writeFileSync(made, toHex(randomBytes(32)), { mode: 0o600, flush: true });
    try {
      linkSync(made, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    } finally {
      rmSync(made, { force: true });
    }
  }
  const key = readFileSync(path, "latin1").trim();
  if (isHash32(key)) return key;
  throw new Unavailable(`${path} holds no grant key: restore it, or remove it when no payment is under way.`);
}

function generationsIn(folder: string): number[] {
  return readdirSync(folder)
    .flatMap((name) => FILE.exec(name)?.[1] ?? [])
    .map(Number);
}
