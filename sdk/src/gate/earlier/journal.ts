/** Reads the meter's journal of the version before the log of cells: one line an entry, `crc32 json`. */
import { crc32 } from "node:zlib";
import { ConfigError } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type Batch, Books, type Entry, emptyAccount, type MeteredAccount, type Totals } from "../metering/books";
import { fromJson } from "../metering/json";
import type { ReceiptCount } from "../metering/receipt-count";

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
