/**
 * Keeps answers in files beside the claims, `answers/<minute>/<slot>.log`. Each minute of expiry has a folder, which is
 * deleted as a whole; slots are by payment, so that a search reads little. An answer is written before the line that
 * uses its claim, under the claim's owner: one without the other is ignored. A full slot keeps no more.
 */
import { closeSync, fstatSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Hex } from "../../protocol";
import type { StoredAnswer } from "./rules";

const MINUTE_MS = 60_000;

const MINUTE = /^[0-9]{1,10}$/;

/** 256 slots a minute: with answers of 64 KiB and ten minutes at most about 700 MiB. */
const SLOT_BYTES = 256 * 1_024;

export interface FileAnswers {
  keep(claim: { readonly paymentId: Hex; readonly owner: string }, answer: StoredAnswer): void;
  find(claim: { readonly paymentId: Hex; readonly owner: string }, nowMs: number): string | undefined;
}

export function fileAnswers(claimsFolder: string): FileAnswers {
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
