/**
 * Keeps the agent's ledger in one locked file of JSON lines. Node only; the rest of the agent never imports it.
 * A record is on disk before `append` resolves. A torn last line is left by a crash and is dropped; damage anywhere
 * else is an error, since a lost authorization could be paid twice. The file holds secrets: mode 0600.
 */
import { type FileHandle, open, readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type FileLock, isDiskFull, lockFile, removeUnfinished, replaceFile } from "../../file-lock";
import { ConfigError, TurnpikeError } from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import { type Ledger, type LedgerRecord, ledgerRecordSchema } from "../ledger/ledger-store";
import { makeFolder } from "./folder";

export { fileReceipts, writeAudit } from "./file-receipts";

/** How the file's lock and its old records are treated. */
export interface FileLedgerOptions {
  /** how long a lock must be seen unattended before it is taken over, ms; at least 2,000. Default 5,000 */
  readonly staleMs?: number;
  /**
   * how long to wait for another process's lock, ms; less than `staleMs` takes over none of a killed process. Default: a
   * little over `staleMs`
   */
  readonly waitMs?: number;
  /**
   * served and released records older than this are dropped when the file is opened, seconds; at least a day, which the
   * budget counts. Default 30 days
   */
  readonly keepSec?: number;
}

const DEFAULT_KEEP_SEC = 30 * DAY_SEC;

/** Opens nothing until it is used. One process at a time; a second one gets LedgerLocked. */
export function fileLedger(path: string, options: FileLedgerOptions = {}): Ledger {
  if (typeof path !== "string" || path === "") throw new ConfigError("fileLedger needs a path");
  const file = resolve(path);
  const staleMs = options.staleMs ?? 5_000;
  const keepSec = requireKept(options.keepSec ?? DEFAULT_KEEP_SEC);
  let handle: FileHandle | undefined;
  /** of whole lines */
  let wholeBytes = 0;
  /** whether a write has failed, which may have left a part of its line behind them */
  let isTorn = false;
  let lock: FileLock | undefined;
  let tail: Promise<void> = Promise.resolve();

  const locked = (message: string) => new TurnpikeError("LedgerLocked", message);

  /** Waits for the lock while another process holds it. Any other fault stays as it is however long one waits. */
  async function lockedWithin(): Promise<FileLock> {
    // A lost lock is noticed where something is written.
    const lost = () => undefined;
    const found = await lockFile(file, { staleMs, waitMs: options.waitMs, onLost: lost }).catch((cause: unknown) => {
      throw unusable(file, cause);
    });
    if (found) return found;
    throw locked(`Another process holds the agent's ledger ${file}.`);
  }

  const lost = () => locked(`The lock of the ledger ${file} was lost; nothing more is written to it.`);

  function requireLock(): void {
    if (!lock?.isOwn()) throw lost();
  }

  function requireOwn(): FileHandle {
    requireLock();
    if (handle) return handle;
    throw lost();
  }

  async function write(line: string): Promise<void> {
    const own = requireOwn();
    if (isTorn) await own.truncate(wholeBytes);
    isTorn = true;
    try {
      await own.appendFile(line);
      await own.datasync();
    } catch (error) {
      throw isDiskFull(error) ? unusable(file, error) : error;
    }
    // After a pause before the write it may be in a file that another process has replaced.
    requireOwn();
    isTorn = false;
    wholeBytes += Buffer.byteLength(line);
  }

  return {
    async load() {
      if (handle) throw new ConfigError("a ledger is loaded once; give every agent the same object");
      try {
        await makeFolder(dirname(file));
        await (await open(file, "a", 0o600)).close();
      } catch (cause) {
        throw unusable(file, cause);
      }
      lock = await lockedWithin();
      try {
        await removeUnfinished(file);
        const text = await readFile(file, "utf8");
        const records = compact(parse(text, file), keepSec * 1_000);
        // A former holder that was paused goes on in the file that this one replaces.
        handle = await replaceFile(file, records.map((record) => `${JSON.stringify(record)}\n`).join(""), requireLock);
        wholeBytes = (await handle.stat()).size;
        isTorn = false;
        return records;
      } catch (error) {
        // A process that took it over has removed what was to be renamed.
        const fault = isDiskFull(error) ? unusable(file, error) : error;
        const cause = lock.isOwn() ? fault : lost();
        await lock.release();
        throw cause;
      }
    },

    append(record) {
      const line = `${JSON.stringify(record)}\n`;
      const mine = tail.then(() => write(line));
      // A failed write is its own caller's error; the next append still runs.
      tail = mine.catch(() => undefined);
      return mine;
    },

    async close() {
      await tail;
      await handle?.close();
      handle = undefined;
      await lock?.release();
      lock = undefined;
    },
  };
}

function requireKept(keepSec: number): number {
  if (Number.isSafeInteger(keepSec) && keepSec >= DAY_SEC) return keepSec;
  throw new ConfigError(
    `keepSec is ${keepSec}: use a whole number of seconds, at least ${DAY_SEC}. The budget counts what was spent within a day`,
  );
}

function unusable(file: string, cause: unknown): ConfigError {
  if (isDiskFull(cause)) {
    return new ConfigError(`the ledger ${file} cannot be written: its disk is full; free some space on it`, { cause });
  }
  const { code = "unknown error" } = cause as { readonly code?: string };
  return new ConfigError(
    `the ledger ${file} cannot be written (${code}): name one in a folder that this user can write to`,
    { cause },
  );
}

/** @throws ConfigError when a line other than a torn last one cannot be read */
function parse(text: string, file: string): LedgerRecord[] {
  const lines = text.split("\n");
  const torn = lines.pop();
  const records = lines.map((line, index) => {
    const record = ledgerRecordSchema.safeParse(jsonOf(line));
    if (!record.success) throw damaged(file, index + 1);
    return record.data;
  });
  // Without its newline a line was never acknowledged; it counts nevertheless when it is complete.
  const last = torn ? ledgerRecordSchema.safeParse(jsonOf(torn)) : undefined;
  return last?.success ? [...records, last.data] : records;
}

const damaged = (file: string, line: number) =>
  new ConfigError(
    `The ledger ${file} is damaged at line ${line}; restore it from a copy before this agent pays again.`,
  );

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // The schema refuses undefined, and the line is reported by number, never by content.
    return undefined;
  }
}

/** Returns the last record of each id; finished payments only while they are recent. */
function compact(records: readonly LedgerRecord[], keepMs: number): LedgerRecord[] {
  const last = new Map<string, LedgerRecord>();
  for (const record of records) last.set(`${record.type}:${record.id}`, record);
  const oldestSec = (Date.now() - keepMs) / 1_000;
  return [...last.values()].filter((record) => {
    if (record.type === "spend") return record.atSec > oldestSec;
    if (record.type !== "payment" || record.key !== undefined) return true;
    return (record.state !== "served" && record.state !== "released") || record.atSec > oldestSec;
  });
}
