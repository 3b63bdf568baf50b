/**
 * Imports what gates of the version before the log of cells kept in a folder: claims, the grant key, pins and the books
 * of meters. Safe to repeat after a crash at any line: what was imported is found again, and earlier files are renamed
 * only once everything is on disk.
 */
import { existsSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { lockFile } from "../../file-lock";
import { ConfigError } from "../../protocol";
import type { AskedChange, Cells } from "../cells/cells";
import { LogCells } from "../cells/log";
import { hasBalance } from "../metering/books";
import { accountKey, accountText, receiptKey, receiptText, SENDER_KEY, senderText } from "../metering/shared-view";
import { CLAIM_LOG } from "../purchases/file";
import { GRANT_KEY } from "../purchases/store";
import { textOfRecord } from "../purchases/text";
import { earlierClaims } from "./claims";
import { earlierBooks } from "./journal";

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
