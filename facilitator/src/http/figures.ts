/** What handlers of figures share: the range of a query, and the same response as JSON and as CSV. */
import type { EndpointSpec } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { z } from "zod";
import type { Caller } from "../providers/keys";
import { type Call, ok } from "./endpoint";

/** Writes rows as CSV (RFC 4180) that a spreadsheet opens and does not run; amounts have their token and decimals. */
export type Cell = string | number | boolean | undefined;

/** The token of a row's amounts. */
export interface TokenUnit {
  readonly token: string;
  /** undefined for a token that this service no longer settles */
  readonly decimals: number | undefined;
}

/** An amount of a token, in base units. */
export interface Money<T> {
  readonly amountOf: (row: T) => string | undefined;
}

/** Text that this service has formatted, such as a decimal amount: it is kept as it is. */
export interface Plain<T> {
  readonly textOf: (row: T) => string;
}

export const plain = <T>(textOf: (row: T) => string): Plain<T> => ({ textOf });

export const money = <T>(amountOf: (row: T) => string | undefined): Money<T> => ({ amountOf });

type Column<T> = ((row: T) => Cell) | Money<T> | Plain<T>;

export interface Sheet<T> {
  /** an amount makes two columns: `amount` in base units, and `amountDecimal` */
  readonly columns: Readonly<Record<string, Column<T>>>;
  /** for every sheet with amounts: adds the columns `token` and `decimals` */
  readonly unitOf?: (row: T) => TokenUnit;
}

export function csvHeader<T>({ columns, unitOf }: Sheet<T>): string {
  const names = Object.entries(columns).flatMap(([name, column]) =>
    isMoney(column) ? [name, `${name}Decimal`] : [name],
  );
  return line([...names, ...(unitOf ? ["token", "decimals"] : [])]);
}

/** @throws TypeError for a sheet with amounts and no token */
export function csvRows<T>({ columns, unitOf }: Sheet<T>, rows: readonly T[]): string {
  return rows
    .map((row) => {
      const unit = unitOf?.(row);
      const cells = Object.values(columns).flatMap((column): CellText[] =>
        typeof column === "function"
          ? [cellText(column(row))]
          : "textOf" in column
            ? [column.textOf(row)]
            : moneyCells(column.amountOf(row), unit),
      );
      return line([...cells, ...(unit ? [cellText(unit.token), cellText(unit.decimals)] : [])]);
    })
    .join("");
}

const isMoney = <T>(column: Column<T>): column is Money<T> => "amountOf" in column;

/** Formats one field. A leading minus of a number is no formula. */
type CellText = string;

function moneyCells(amount: string | undefined, unit: TokenUnit | undefined): CellText[] {
  if (!unit) throw new TypeError("a sheet with amounts says of which token they are");
  return amount === undefined ? ["", ""] : [amount, decimalOf(amount, unit.decimals) ?? ""];
}

/** Formats `1500000` at 6 decimals as `1.500000`, with all digits, so that nothing is rounded. */
export function decimalOf(baseUnits: string, decimals: number | undefined): string | undefined {
  if (decimals === undefined) return undefined;
  if (decimals === 0) return baseUnits;
  const isNegative = baseUnits.startsWith("-");
  const digits = baseUnits.slice(isNegative ? 1 : 0).padStart(decimals + 1, "0");
  return `${isNegative ? "-" : ""}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

const line = (cells: readonly CellText[]): string => `${cells.join(",")}\r\n`;

/** Where spreadsheets of some countries begin a new field, also within quotes that do not begin one. */
const SPLITS = ";\\t\\r\\n";

/** What they skip before a formula; a quotation mark too, where it begins the field. */
const UNSEEN = '[\\s\\p{Cc}\\p{Cf}"]';

/** What begins a formula, full-width or not. */
const SIGN = "[=+\\-@\uff1d\uff0b\uff0d\uff20]";

const FORMULA = new RegExp(`^(?:${UNSEEN}*${SIGN}|[\\t\\r\\n])`, "u");

const LATER_FORMULA = new RegExp(`[${SPLITS}](?=(?:(?![${SPLITS}])${UNSEEN})*${SIGN})`, "gu");

const QUOTED = new RegExp(`[",${SPLITS}]`);

/** Escapes text that begins like a formula, or does where it is split: an apostrophe keeps it a text. */
function cellText(cell: Cell): CellText {
  const text = String(cell ?? "");
  const safe = typeof cell === "string" ? keptText(text) : text;
  return QUOTED.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function keptText(text: string): string {
  const apart = text.replace(LATER_FORMULA, "$&'");
  return FORMULA.test(text) ? `'${apart}` : apart;
}

/** Rows of a CSV that are read at once. */
export const CSV_PAGE = 1_000;

interface FiguresFields {
  readonly token?: Address | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly days: number;
}

export const rangeOf = ({ token, from, to, days }: FiguresFields) => ({ token, fromSec: from, toSec: to, days });

const fileOf = <B>(name: string, body: B) => ({
  status: 200 as const,
  body,
  headers: { "content-disposition": `attachment; filename="turnpike-${name}.csv"` },
});

export interface CsvPage<T> {
  readonly rows: readonly T[];
  readonly next?: string | undefined;
}

/**
 * Streams a whole list as one CSV, of any length: each page is read once the previous one was consumed. An error before
 * the first row is a problem response. A later one breaks the connection, so that a partial file is not taken for the
 * whole.
 */
export async function sheetOfPages<T>(
  name: string,
  sheet: Sheet<T>,
  read: (cursor: string | undefined) => Promise<CsvPage<T>>,
  from?: string,
) {
  const first = await read(from);
  async function* parts(): AsyncGenerator<string> {
    yield csvHeader(sheet) + csvRows(sheet, first.rows);
    for (let { next } = first; next !== undefined; ) {
      const page = await read(next);
      yield csvRows(sheet, page.rows);
      next = page.next;
    }
  }
  return fileOf(name, parts());
}

export const isoTime = (timeSec: number): string => new Date(timeSec * 1_000).toISOString();

interface FiguresSpec extends EndpointSpec {
  readonly answers: { readonly 200: z.ZodType };
}

type Loaded<E extends FiguresSpec> = z.input<E["answers"][200]>;

/** A CSV has no limit: it always contains the whole list. */
type Queried<E extends FiguresSpec> = Omit<Call<E>["query"], "limit"> & { readonly limit?: number | undefined };

interface Both<E extends FiguresSpec, R> {
  /** of the CSV's file */
  readonly name: string;
  load(query: Queried<E>, caller: Caller): Promise<Loaded<E>>;
  rows(answer: Loaded<E>): readonly R[];
  readonly columns: Sheet<R>["columns"];
}

/** What both forms are asked with. */
interface Asked<E extends FiguresSpec> {
  readonly query: Queried<E>;
  readonly caller: Caller;
}

type BothHandlers<E extends FiguresSpec> = {
  readonly [_ in E["id"]]: (asked: Asked<E>) => Promise<ReturnType<typeof ok<Loaded<E>>>>;
} & {
  readonly [_ in `${E["id"]}Csv`]: (asked: Asked<E>) => Promise<ReturnType<typeof fileOf<string>>>;
};

/** Handles an endpoint and its CSV: all rows, times as text, amounts in base units and as decimals. */
export function bothForms<E extends FiguresSpec, R>(
  { id }: E,
  { name, load, rows, columns }: Both<E, R>,
): BothHandlers<E> {
  return {
    [id]: async ({ query, caller }: Asked<E>) => ok(await load(query, caller)),
    [`${id}Csv`]: async ({ query, caller }: Asked<E>) => {
      const figures = await load(query, caller);
      const unit = unitIn(figures);
      const sheet = { columns, ...(unit && { unitOf: () => unit }) };
      return fileOf(name, csvHeader(sheet) + csvRows(sheet, rows(figures)));
    },
  } as BothHandlers<E>;
}

/** For responses whose amounts are all of one token. */
function unitIn(answer: unknown): TokenUnit | undefined {
  if (typeof answer !== "object" || answer === null || !("token" in answer) || !("decimals" in answer))
    return undefined;
  return { token: String(answer.token), decimals: Number(answer.decimals) };
}
