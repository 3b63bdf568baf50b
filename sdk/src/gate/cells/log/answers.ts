/** Keeps the long texts of a log, which may be forgotten where space is short, in files beside it. */
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { fullDisk, withSpace } from "./file";

const MINUTE_MS = 60_000;

const MINUTE = /^[0-9]{1,10}$/;

/** There are 256 slots a minute. */
const SLOT_BYTES = 256 * 1_024;

/** in which the system counts what a file takes */
const BLOCK_BYTES = 512;

/** One text of a cell. */
export interface AnswerOf {
  readonly key: string;
  /** of the line that it belongs to */
  readonly version: number;
}

export interface FileAnswers {
  /** @param text printable ASCII without spaces and semicolons; times in unix milliseconds */
  keep(of: AnswerOf, answer: { readonly text: string; readonly nowMs: number; readonly untilMs: number }): void;
  find(of: AnswerOf, nowMs: number): string | undefined;
  /** Deletes the answers that end first, of one minute. @returns whether there were any */
  removeOldest(): boolean;
}

/**
 * Keeps answers in `answers/<minute>/<slot>.log`. Each minute of expiry has a folder, which is deleted as a whole; slots
 * are by payment, so that a search reads little. An answer is written before the line that it belongs to: one without
 * the other is ignored. A full slot keeps no more.
 */
export function fileAnswers(logFolder: string, maxBytes: number): FileAnswers {
  const folder = join(logFolder, "answers");
  let cleanedMinute = 0;
  /** of all processes as they were last counted, and of this one since */
  let keptBytes = 0;
  /** no other one could be deleted for the answers of this minute */
  let fullMinute = 0;

  const remove = (minute: number) => rmSync(join(folder, String(minute)), { recursive: true, force: true });

  /** Deletes expired answers, at most once a minute. */
  function removeEnded(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute <= cleanedMinute) return;
    cleanedMinute = minute;
    for (const ended of minutesIn(folder)) if (ended < minute) remove(ended);
    keptBytes = bytesIn(folder);
  }

  /** @returns whether it fits beside what other minutes keep, of which the oldest are deleted */
  function fits(bytes: number, minute: number): boolean {
    if (keptBytes + bytes <= maxBytes) return true;
    if (minute === fullMinute) return false;
    keptBytes = bytesIn(folder);
    for (const older of minutesIn(folder).sort((a, b) => a - b)) {
      if (keptBytes + bytes <= maxBytes || older >= minute) break;
      remove(older);
      keptBytes = bytesIn(folder);
    }
    if (keptBytes + bytes > maxBytes) fullMinute = minute;
    return minute !== fullMinute;
  }

  function append(minute: number, slot: string, line: string): void {
    const open = () => openSync(join(folder, String(minute), slot), "a", 0o600);
    let file = ifThere(open);
    if (file === undefined) {
      mkdirSync(join(folder, String(minute)), { recursive: true, mode: 0o700 });
      file = open();
    }
    try {
      if (fstatSync(file).size >= SLOT_BYTES) return;
      const written = writeSync(file, line);
      keptBytes += written;
      if (written < line.length) throw fullDisk({ code: "ENOSPC" });
    } finally {
      closeSync(file);
    }
  }

  /** @returns whether there were any that end in an earlier minute */
  function removeOldest(before = Number.POSITIVE_INFINITY): boolean {
    const [oldest = before] = minutesIn(folder).sort((a, b) => a - b);
    if (oldest < before) remove(oldest);
    return oldest < before;
  }

  return {
    keep({ key, version }, { text, nowMs, untilMs }) {
      removeEnded(nowMs);
      const minute = Math.ceil(untilMs / MINUTE_MS);
      const line = `\n${key} ${version} ${untilMs} ${text};`;
      if (!fits(line.length, minute)) return;
      withSpace(
        () => append(minute, slotOf(key), line),
        () => removeOldest(minute),
      );
    },
    find({ key, version }, nowMs) {
      removeEnded(nowMs);
      for (const minute of minutesIn(folder)) {
        const found = lineIn(join(folder, String(minute), slotOf(key)), `\n${key} ${version} `);
        const [untilMs, text] = found?.split(" ") ?? [];
        if (text !== undefined && Number(untilMs) > nowMs) return text;
      }
      return undefined;
    },
    removeOldest: () => removeOldest(),
  };
}

const slotOf = (key: string): string => `${/@0x([0-9a-f]{2})/.exec(key)?.[1] ?? "00"}.log`;

function minutesIn(folder: string): number[] {
  const names = ifThere(() => readdirSync(folder)) ?? [];
  return names.filter((name) => MINUTE.test(name)).map(Number);
}

/** Counts what the kept answers take on the disk, where a small one takes a block. */
function bytesIn(folder: string): number {
  let bytes = 0;
  for (const minute of minutesIn(folder)) {
    const path = join(folder, String(minute));
    for (const slot of ifThere(() => readdirSync(path)) ?? []) {
      const found = statSync(join(path, slot), { throwIfNoEntry: false });
      if (found) bytes += Math.max(found.size, BLOCK_BYTES * found.blocks);
    }
  }
  return bytes;
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
