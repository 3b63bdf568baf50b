/**
 * Keeps claims in one append-only file that any number of processes on this machine share: **the file's order
 * decides**. A process appends a line, reads the file up to it, and sees whether an earlier line holds the claim. A
 * single append is atomic on a local file system (not on NFS). Survives the death of any process, not a loss of power
 * within the last moments.
 */
import {
  closeSync,
  existsSync,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { ConfigError, type Hex, isHash32, isTurnpikeError, randomBytes, toHex, Unavailable } from "../../protocol";
import { lineOfAct } from "./claim-line";
import { ClaimLog } from "./claim-log";
import {
  applyClaim,
  type ClaimAct,
  type ClaimStore,
  isHeldAfter,
  outcomeFor,
  type StoredAnswer,
  servedOf,
} from "./rules";

export interface FileClaimsOptions {
  /** created when absent, readable by its owner only */
  readonly folder: string;
  /** how much a file may grow beyond its living records; default 16 MiB */
  readonly rotateBytes?: number;
}

const GRANT_KEY_FILE = "grant.key";

/** @throws ConfigError when the folder cannot be used */
export function fileClaims({ folder, rotateBytes = 16 * 1_024 * 1_024 }: FileClaimsOptions): ClaimStore {
  const answers = fileAnswers(folder);
  const log = openLog(folder, rotateBytes);
  let grantKey: Hex | undefined;

  /** Returns whether an act changes nothing: presenting a used proof again costs no line. */
  const changesNothing = (paymentId: Hex, act: ClaimAct): boolean => {
    const record = log.record(paymentId);
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
    served(paymentId, nowMs) {
      return guarded(async () => {
        const moving = log.catchUp();
        if (moving) await moving;
        return servedOf(log.record(paymentId), ({ owner }) => answers.find({ paymentId, owner }, nowMs));
      });
    },
    closesForRefund: true,
    ready() {
      return guarded(async () => log.requireWritable());
    },
    close: () => log.close(),
  };
}

function openLog(folder: string, rotateBytes: number): ClaimLog {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return new ClaimLog(folder, rotateBytes);
  } catch (cause) {
    throw new ConfigError(`claims: the folder ${folder} cannot be written; name another, or a shared store`, { cause });
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

const MINUTE_MS = 60_000;

const MINUTE = /^[0-9]{1,10}$/;

/** 256 slots a minute: with answers of 64 KiB and ten minutes at most about 700 MiB. */
const SLOT_BYTES = 256 * 1_024;

interface FileAnswers {
  keep(claim: { readonly paymentId: Hex; readonly owner: string }, answer: StoredAnswer): void;
  find(claim: { readonly paymentId: Hex; readonly owner: string }, nowMs: number): string | undefined;
}

/**
 * Keeps answers in files beside the claims, `answers/<minute>/<slot>.log`. Each minute of expiry has a folder, which is
 * deleted as a whole; slots are by payment, so that a search reads little. An answer is written before the line that
 * uses its claim, under the claim's owner: one without the other is ignored. A full slot keeps no more.
 */
function fileAnswers(claimsFolder: string): FileAnswers {
  const folder = join(claimsFolder, "answers");
  let cleanedMinute = 0;

  /** Deletes expired answers, at most once a minute. */
  function removeEnded(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute <= cleanedMinute) return;
    cleanedMinute = minute;
    for (const name of minutesIn(folder)) {
      if (name < minute) rmSync(join(folder, String(name)), { recursive: true, force: true });
    }
  }

  return {
    keep({ paymentId, owner }, { text, nowMs, keepSec }) {
      removeEnded(nowMs);
      const untilMs = nowMs + keepSec * 1_000;
      const minute = join(folder, String(Math.ceil(untilMs / MINUTE_MS)));
      const open = () => openSync(join(minute, slotOf(paymentId)), "a", 0o600);
      let file = ifThere(open);
      if (file === undefined) {
        mkdirSync(minute, { recursive: true, mode: 0o700 });
        file = open();
      }
      try {
        if (fstatSync(file).size < SLOT_BYTES) writeSync(file, `\n${paymentId} ${owner} ${untilMs} ${text};`);
      } finally {
        closeSync(file);
      }
    },
    find({ paymentId, owner }, nowMs) {
      removeEnded(nowMs);
      for (const minute of minutesIn(folder)) {
        const found = lineIn(join(folder, String(minute), slotOf(paymentId)), `\n${paymentId} ${owner} `);
        const [untilMs, text] = found?.split(" ") ?? [];
        if (text !== undefined && Number(untilMs) > nowMs) return text;
      }
      return undefined;
    },
  };
}

const slotOf = (paymentId: Hex): string => `${paymentId.slice(2, 4)}.log`;

function minutesIn(folder: string): number[] {
  const names = ifThere(() => readdirSync(folder)) ?? [];
  return names.filter((name) => MINUTE.test(name)).map(Number);
}

/** Returns what follows `start` up to the end of its line, where the line is complete. */
function lineIn(path: string, start: string): string | undefined {
  const content = ifThere(() => readFileSync(path, "latin1"));
  if (content === undefined) return undefined;
  const at = content.lastIndexOf(start);
  const end = at < 0 ? -1 : content.indexOf(";", at);
  return end < 0 ? undefined : content.slice(at + start.length, end);
}

/** @returns undefined where nothing was kept there, or another process has removed it since */
function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
