/**
 * Imports what gates of the version before the log of cells kept in a folder: claims, the grant key, pins and the books
 * of meters. Safe to repeat after a crash at any line: what was imported is found again, and earlier files are renamed
 * only once everything is on disk.
 */
import { existsSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { lockFile } from "../../file-lock";
import { ConfigError, type Hex } from "../../protocol";
import type { AskedChange, Cells } from "../cells/cells";
import { LogCells } from "../cells/log";
import {
  type Batch,
  Books,
  type Entry,
  emptyAccount,
  hasBalance,
  type MeteredAccount,
  type Totals,
} from "../metering/books";
import type { ReceiptCount } from "../metering/receipt-count";
import {
  accountKey,
  accountText,
  fromJson,
  receiptKey,
  receiptText,
  SENDER_KEY,
  senderText,
} from "../metering/shared-view";
import { applyClaim, type ClaimAct, type ClaimRecord, recordOfText, textOfRecord } from "../purchases/record";
import { CLAIM_LOG, GRANT_KEY } from "../purchases/store";

/** What was found and imported. */
export interface Imported {
  readonly claims: number;
  /** by the name of its file */
  readonly meters: Readonly<Record<string, { readonly subscriptions: number }>>;
}

const CLAIMS = /^claims-([0-9]{1,9})\.log$/;

const METER = /^meter-[0-9]+-[0-9a-f]{8}\.log$/;

const PIN = /^pin-[0-9a-f]{64}$/;

const KEY_FILE = "grant.key";

const ROTATE_BYTES = 2 ** 40;

const AT_ONCE = 50;

const LOCK_STALE_MS = 10_000;

/** @throws ConfigError for a folder with nothing to import, a damaged file, or a meter that runs */
export async function importStore(folder: string): Promise<Imported> {
  const names = namesIn(folder);
  const claims = names.filter((name) => CLAIMS.test(name) || PIN.test(name) || name === KEY_FILE);
  const meters = names.filter((name) => METER.test(name));
  if (claims.length + meters.length === 0) {
    throw new ConfigError(
      `${folder} has nothing of an earlier version: name the folder of \`claims\` or \`meterFolder\``,
    );
  }
  const subscriptions: Record<string, { subscriptions: number }> = {};
  for (const name of meters) subscriptions[name] = { subscriptions: await importMeter(folder, name) };
  const records = claims.length === 0 ? 0 : await importClaims(folder, claims);
  for (const name of [...claims, ...meters]) renameSync(join(folder, name), join(folder, `${name}.imported`));
  return { claims: records, meters: subscriptions };
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    throw new ConfigError(`${folder} cannot be read: name the folder of \`claims\` or \`meterFolder\``, { cause });
  }
}

async function importClaims(folder: string, names: readonly string[]): Promise<number> {
  const newest = Math.max(-1, ...names.map((name) => Number(CLAIMS.exec(name)?.[1] ?? -1)));
  const text = newest < 0 ? "" : readFileSync(join(folder, `claims-${newest}.log`), "latin1");
  const records = earlierClaims(text);
  const changes = [...records].map(([key, record]) => ({
    key,
    next: textOfRecord(undefined, record),
    untilSec: record.keepUntilSec,
  }));
  const others = names
    .filter((name) => !CLAIMS.test(name))
    .map((name) => ({
      key: name === KEY_FILE ? GRANT_KEY : name,
      next: readFileSync(join(folder, name), "utf8").trim(),
    }));
  await write(new LogCells({ folder, name: CLAIM_LOG, what: "claims", rotateBytes: ROTATE_BYTES }), [
    ...changes,
    ...others,
  ]);
  return records.size;
}

async function importMeter(folder: string, name: string): Promise<number> {
  const path = join(folder, name);
  const lock = await lockFile(path, { staleMs: LOCK_STALE_MS });
  if (!lock) throw new ConfigError(`${path} is in use: stop the gate that meters in it`);
  try {
    const books = earlierBooks(acknowledged(path), path);
    const { batches, recent, successors, totals, nextBatch } = books;
    const accounts = [...books.accounts.values()].filter(hasBalance);
    const sender = { owner: "", leaseUntilMs: 0, turn: 0, recent, totals, nextBatch };
    await write(new LogCells({ folder, name: name.slice(0, -4), what: "meterFolder", rotateBytes: ROTATE_BYTES }), [
      ...accounts.map((account) => ({
        key: accountKey(account.idHash),
        next: accountText({ ...account, holds: [] }),
        listed: true,
      })),
      ...[...books.receipts].map(([idHash, receipt]) => ({ key: receiptKey(idHash), next: receiptText(receipt) })),
      { key: SENDER_KEY, next: senderText({ ...sender, batches: [...batches.values()], successors: [...successors] }) },
    ]);
    return accounts.length;
  } finally {
    await lock.release();
  }
}

/** Leaves out what was refused: a note beside the journal says so where it could not be cut off. */
function acknowledged(path: string): Buffer {
  const journal = readFileSync(path);
  const note = `${path}.repair`;
  if (!existsSync(note)) return journal;
  const bytes = /^([0-9]{1,15})\n$/.exec(readFileSync(note, "latin1"))?.[1];
  if (bytes === undefined)
    throw new ConfigError(`${note} is damaged: the end of the journal may hold calls that were refused`);
  return journal.subarray(0, Number(bytes));
}

async function write(cells: Cells, all: readonly Omit<AskedChange, "expected">[]): Promise<void> {
  try {
    for (let at = 0; at < all.length; at += AT_ONCE) {
      const some = all.slice(at, at + AT_ONCE);
      const found = await cells.read(some.map(({ key }) => key));
      // What is there already may be newer than what is imported, after a crash between two renames.
      const changes = some.flatMap((change, i) => (found[i] === undefined ? [{ ...change, expected: undefined }] : []));
      const isMade = await cells.swap(changes, { isDurable: at + AT_ONCE >= all.length });
      if (!isMade) throw new ConfigError("Another process writes into the folder: stop its gates first");
    }
  } finally {
    await cells.close();
  }
}

/** What follows it in a file is in the next one. */
const ROTATED = "R;";

const ACT =
  /^A (0x[0-9a-f]{64}) (claim|renew|use|refund|release|withdraw) ([A-Za-z0-9_-]{0,22}) ([0-9]{1,16}) ([0-9]{1,16}) ([0-9]{1,16});$/;

const KEY = /^S (0x[0-9a-f]{64}) /;

/** Replays the lines of a file. A line of neither form was torn, and its writer did not count it either. */
export function earlierClaims(text: string): ReadonlyMap<Hex, ClaimRecord> {
  const records = new Map<Hex, ClaimRecord>();
  for (const line of text.split("\n")) {
    if (line === ROTATED) break;
    const [, id, act, owner = "", nowMs, leaseMs, keepUntilSec] = ACT.exec(line) ?? [];
    const key = (id ?? KEY.exec(line)?.[1]) as Hex | undefined;
    if (key === undefined) continue;
    const numbers = { nowMs: Number(nowMs), leaseMs: Number(leaseMs), keepUntilSec: Number(keepUntilSec) };
    const record =
      act === undefined
        ? recordOfText(line)
        : applyClaim(records.get(key), { act: act as "claim", owner, ...numbers } satisfies ClaimAct);
    if (record) records.set(key, record);
    else if (act !== undefined) records.delete(key);
  }
  return records;
}

/** A debit of a call by itself, which failed without leaving anything owed. */
type Item = Batch["items"][number] & { readonly origin?: "merged" | "call" };

interface Snapshot {
  readonly kind: "snapshot";
  readonly accounts: readonly MeteredAccount[];
  readonly batches: readonly Batch[];
  readonly recent: readonly Batch[];
  readonly successors: readonly (readonly [Hex, Hex])[];
  readonly totals: Totals;
  readonly nextBatch: number;
  readonly receipts?: readonly (readonly [Hex, ReceiptCount])[];
}

type Line = Entry | Snapshot | { readonly kind: "receipted"; readonly idHash: Hex; readonly receipt: ReceiptCount };

/**
 * Replays what was acknowledged of a journal.
 * @throws ConfigError for a damaged one, and while debits of single calls are under way, whose callers may have been refused
 */
export function earlierBooks(journal: Buffer, path: string): Books {
  const books = new Books();
  for (const line of linesOf(journal, path)) apply(books, line);
  for (const { items } of books.batches.values()) {
    if (!(items as readonly Item[]).some(isCall)) continue;
    throw new ConfigError(
      `${path} has debits under way of calls by themselves: start the earlier version until they are settled`,
    );
  }
  return books;
}

const isCall = ({ origin }: Item): boolean => origin === "call";

function apply(books: Books, line: Line): void {
  switch (line.kind) {
    case "snapshot":
      restore(books, line);
      return;
    case "receipted":
      books.receipts.set(line.idHash, line.receipt);
      return;
    case "sealed":
      // Nothing was owed for a call by itself until its debit settled.
      for (const item of (line.items as readonly Item[]).filter(isCall)) {
        const { idHash, amount } = item;
        books.apply({ kind: "reserved", idHash, amount, calls: 0, block: 0 });
      }
      books.apply(line);
      return;
    case "resolved": {
      const items = books.batches.get(line.batch)?.items as readonly Item[] | undefined;
      books.apply(line);
      const failed = items?.filter((item, i) => isCall(item) && line.results[i]?.kind !== "settled");
      for (const { idHash, amount } of failed ?? []) {
        const account = books.account(idHash);
        account.pending -= amount;
        if (account.pending === 0n) account.calls = 0;
        books.totals.charged -= amount;
      }
      return;
    }
    default:
      books.apply(line);
  }
}

function restore(books: Books, { accounts, batches, recent, successors, totals, nextBatch, receipts }: Snapshot): void {
  for (const account of accounts) books.accounts.set(account.idHash, { ...emptyAccount(account.idHash), ...account });
  for (const batch of batches) books.batches.set(batch.id, batch);
  books.recent.push(...recent);
  for (const [from, to] of successors) books.successors.set(from, to);
  Object.assign(books.totals, totals);
  books.nextBatch = nextBatch;
  for (const [idHash, receipt] of receipts ?? []) books.receipts.set(idHash, receipt);
}

/** Damage at the end is an entry that a crash cut off; damage before whole lines means a broken disk. */
function linesOf(journal: Buffer, path: string): readonly Line[] {
  const texts = journal.toString("utf8").split("\n");
  const lines = texts.map(lineOf);
  const whole = lines.indexOf(undefined);
  const found = (whole < 0 ? lines : lines.slice(0, whole)) as Line[];
  if (lines.slice(found.length).every((line) => line === undefined)) return found;
  throw new ConfigError(`${path} is damaged at line ${found.length + 1}: restore it from a backup`);
}

function lineOf(text: string): Line | undefined {
  const json = text.slice(9);
  const isWhole = text[8] === " " && crc32(json).toString(16).padStart(8, "0") === text.slice(0, 8);
  return isWhole ? (JSON.parse(json, fromJson) as Line) : undefined;
}
