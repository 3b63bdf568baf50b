/**
 * Encodes and decodes a journal's entries: one line each, `crc32 json`, so that a torn or corrupt line is detected.
 * Knows lines only, neither files nor what the entries mean.
 */
import { crc32 } from "node:zlib";
import { TurnpikeError } from "../../protocol/errors";
import type { Batch, Entry, MeteredAccount, Totals } from "./books";
import type { ReceiptCount } from "./receipt-count";

/** The whole books, at the head of a compacted journal. */
export interface SnapshotEntry {
  readonly kind: "snapshot";
  readonly accounts: readonly MeteredAccount[];
  readonly batches: readonly Batch[];
  readonly recent: readonly Batch[];
  readonly successors: readonly (readonly [string, string])[];
  readonly totals: Totals;
  readonly nextBatch: number;
  /** absent in a journal of an earlier version */
  readonly receipts?: readonly (readonly [string, ReceiptCount])[];
}

export type Line = Entry | SnapshotEntry;

/** Amounts become "123n": no other text in an entry has this form. */
const BIGINT = /^-?\d+n$/;

export const toJson = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? `${value}n` : value);

export const fromJson = (_key: string, value: unknown): unknown =>
  typeof value === "string" && BIGINT.test(value) ? BigInt(value.slice(0, -1)) : value;

export function encodeLine(line: Line): string {
  return sealed(
    line.kind === "reserved" && line.receipt === undefined
      ? // Written for every call, so without JSON.stringify: four times faster.
        `{"kind":"reserved","idHash":"${line.idHash}","amount":"${line.amount}n","calls":${line.calls},"block":${line.block}}`
      : JSON.stringify(line, toJson),
  );
}

const sealed = (json: string): string => `${crc32(json).toString(16).padStart(8, "0")} ${json}\n`;

/**
 * @returns the entries up to the first damage, and how many bytes they take. Damage at the end is an unacknowledged
 * entry that a crash cut off; damage before whole lines means a broken disk and throws.
 */
export function decodeLines(bytes: Buffer): { readonly lines: readonly Line[]; readonly wholeBytes: number } {
  const lines: Line[] = [];
  let at = 0;
  while (at < bytes.length) {
    const end = bytes.indexOf(0x0a, at);
    const line = end < 0 ? undefined : decodeLine(bytes.toString("utf8", at, end));
    if (line === undefined) {
      if (end >= 0 && hasWholeLine(bytes, end + 1)) throw damaged(lines.length + 1);
      break;
    }
    lines.push(line);
    at = end + 1;
  }
  return { lines, wholeBytes: at };
}

function decodeLine(text: string): Line | undefined {
  const json = text.slice(9);
  const isWhole = text[8] === " " && crc32(json).toString(16).padStart(8, "0") === text.slice(0, 8);
  return isWhole ? (JSON.parse(json, fromJson) as Line) : undefined;
}

function hasWholeLine(bytes: Buffer, from: number): boolean {
  for (let at = from; at < bytes.length; ) {
    const end = bytes.indexOf(0x0a, at);
    if (end < 0) return false;
    if (decodeLine(bytes.toString("utf8", at, end)) !== undefined) return true;
    at = end + 1;
  }
  return false;
}

function damaged(lineNumber: number): TurnpikeError {
  return new TurnpikeError(
    "ConfigError",
    `The meter's journal is damaged at line ${lineNumber}: restore the file, or move it away and give up what it held.`,
  );
}
