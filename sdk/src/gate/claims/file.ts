/**
 * Keeps claims in one append-only file that any number of processes on this machine share: **the file's order
 * decides**. A process appends a line, reads the file up to it, and sees whether an earlier line holds the claim. A
 * single append is atomic on a local file system (not on NFS). Survives the death of any process, not a loss of power
 * within the last moments.
 */
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDiskFull } from "../../file-lock";
import { ConfigError, type Hex, isHash32, isTurnpikeError, randomBytes, toHex, Unavailable } from "../../protocol";
import { aNumber, aText, optionsOf } from "../../protocol/option-checks";
import { fileAnswers } from "./answers";
import { fullDisk } from "./claim-file";
import { lineOfAct } from "./claim-line";
import { ClaimLog } from "./claim-log";
import { applyClaim, type ClaimAct, type ClaimStore, isHeldAfter, outcomeFor, pinNameOf, servedOf } from "./rules";

export interface FileClaimsOptions {
  /** created when absent, readable by its owner only */
  readonly folder: string;
  /** how much a file may grow beyond its living records; default 16 MiB */
  readonly rotateBytes?: number;
  /**
   * how much space all kept answers may take, bytes; default 700 MiB. The oldest are deleted first, also where the disk
   * is full: claims need it more
   */
  readonly answersBytes?: number;
}

const MIB = 1_024 * 1_024;

const GRANT_KEY_FILE = "grant.key";

const checkOptions = optionsOf<FileClaimsOptions>({ folder: aText, rotateBytes: aNumber, answersBytes: aNumber }, [
  "folder",
]);

/** @throws ConfigError when the folder cannot be used */
export function fileClaims(options: FileClaimsOptions): ClaimStore {
  checkOptions(options, "");
  const { folder, rotateBytes = 16 * MIB, answersBytes = 700 * MIB } = options;
  if (!Number.isSafeInteger(answersBytes) || answersBytes < 0) {
    throw new ConfigError(`claims: answersBytes is ${answersBytes}; use a whole number of bytes`);
  }
  const answers = fileAnswers(folder, answersBytes);
  const log = openLog(folder, rotateBytes, answers.removeOldest);
  let grantKey: Hex | undefined;

  /** Returns whether an act changes nothing: presenting a used proof again costs no line. */
  const changesNothing = (paymentId: Hex, act: ClaimAct): boolean => {
    const record = log.record(paymentId);
    return record !== undefined && applyClaim(record, act) === record;
  };

  let isKeeping = true;
  /** An answer that cannot be kept is not replayed; its payment is used nevertheless. */
  function keepAnswer(...kept: Parameters<typeof answers.keep>): void {
    try {
      answers.keep(...kept);
      isKeeping = true;
    } catch (cause) {
      const why = isDiskFull(cause) ? "its disk is full" : (cause as Error).message;
      if (isKeeping) process.emitWarning(`claims: answers cannot be kept in ${folder}: ${why}`);
      isKeeping = false;
    }
  }

  return {
    claim(paymentId, act, nowSec) {
      return guarded(async () => {
        log.observe(nowSec);
        const moving = log.catchUp();
        if (moving) await moving;
        if (!changesNothing(paymentId, act)) await log.append(lineOfAct(paymentId, act));
        return outcomeFor(act.owner, log.record(paymentId), act.nowMs);
      });
    },
    apply(paymentId, act, answer) {
      return guarded(async () => {
        if (act.act === "use" && answer) keepAnswer({ paymentId, owner: act.owner }, answer);
        await log.append(lineOfAct(paymentId, act));
        return isHeldAfter(act, log.record(paymentId));
      });
    },
    grantKey() {
      return guarded(async () => (grantKey ??= readGrantKey(folder)));
    },
    pinned(name, first) {
      return guarded(async () => {
        const path = join(folder, pinNameOf(name));
        return existsSync(path) ? readFileSync(path, "utf8") : keepFirst(path, await first());
      });
    },
    served(paymentId, nowMs) {
      return guarded(async () => {
        const moving = log.catchUp();
        if (moving) await moving;
        return servedOf(log.record(paymentId), ({ owner }) => answers.find({ paymentId, owner }, nowMs));
      });
    },
    closesForRefund: true,
    ready() {
      return guarded(() => log.requireWritable());
    },
    close: () => log.close(),
  };
}

function openLog(folder: string, rotateBytes: number, freeSpace: () => boolean): ClaimLog {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return new ClaimLog(folder, rotateBytes, freeSpace);
  } catch (cause) {
    const remedy = isDiskFull(cause) ? "its disk is full: free some space on it" : "name another, or a shared store";
    throw new ConfigError(`claims: the folder ${folder} cannot be written; ${remedy}`, { cause });
  }
}

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (isTurnpikeError(cause)) throw cause;
    throw isDiskFull(cause) ? fullDisk(cause) : new Unavailable("The claim file cannot be used.", { cause });
  }
}

/** Writes a file unless another process has, and reads it: a hard link is created whole, or not at all. */
function keepFirst(path: string, text: string): string {
  const made = `${path}.${process.pid}.${toHex(randomBytes(8))}`;
  writeFileSync(made, text, { mode: 0o600, flush: true });
  try {
    linkSync(made, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(made, { force: true });
  }
  return readFileSync(path, "utf8");
}

/** Reads the grant key, which the first process creates for all. */
function readGrantKey(folder: string): Hex {
  const path = join(folder, GRANT_KEY_FILE);
  const key = (existsSync(path) ? readFileSync(path, "latin1") : keepFirst(path, toHex(randomBytes(32)))).trim();
  if (isHash32(key)) return key;
  throw new Unavailable(`${path} holds no grant key: restore it, or remove it when no payment is under way.`);
}
