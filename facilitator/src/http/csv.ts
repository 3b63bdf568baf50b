/** Rows as CSV (RFC 4180) that a spreadsheet opens and does not run; amounts with the token and the decimals that they are of. */
export type Cell = string | number | boolean | undefined;

/** What a row's amounts are counted in. */
export interface TokenUnit {
  readonly token: string;
  /** undefined of a token that this service settles no longer */
  readonly decimals: number | undefined;
}

/** An amount of a token, in base units. */
export interface Money<T> {
  readonly amountOf: (row: T) => string | undefined;
}

export const money = <T>(amountOf: (row: T) => string | undefined): Money<T> => ({ amountOf });

type Column<T> = ((row: T) => Cell) | Money<T>;

export interface Sheet<T> {
  /** an amount makes two columns: `amount` in base units, and `amountDecimal` */
  readonly columns: Readonly<Record<string, Column<T>>>;
  /** of every sheet that has amounts: makes the columns `token` and `decimals` */
  readonly unitOf?: (row: T) => TokenUnit;
}

export function csvHeader<T>({ columns, unitOf }: Sheet<T>): string {
  const names = Object.entries(columns).flatMap(([name, column]) =>
    isMoney(column) ? [name, `${name}Decimal`] : [name],
  );
  return line([...names, ...(unitOf ? ["token", "decimals"] : [])]);
}

/** @throws TypeError for a sheet with amounts of nothing */
export function csvRows<T>({ columns, unitOf }: Sheet<T>, rows: readonly T[]): string {
  return rows
    .map((row) => {
      const unit = unitOf?.(row);
      const cells = Object.values(columns).flatMap((column): CellText[] =>
        isMoney(column) ? moneyCells(column.amountOf(row), unit) : [cellText(column(row))],
      );
      return line([...cells, ...(unit ? [cellText(unit.token), cellText(unit.decimals)] : [])]);
    })
    .join("");
}

const isMoney = <T>(column: Column<T>): column is Money<T> => typeof column === "object";

/** As it stands in a line: a number's minus makes no formula of it. */
type CellText = string;

function moneyCells(amount: string | undefined, unit: TokenUnit | undefined): CellText[] {
  if (!unit) throw new TypeError("a sheet with amounts says of which token they are");
  return amount === undefined ? ["", ""] : [amount, decimalOf(amount, unit.decimals) ?? ""];
}

/** `1500000` at 6 decimals: `1.500000`; all digits, so that nothing is rounded. */
export function decimalOf(baseUnits: string, decimals: number | undefined): string | undefined {
  if (decimals === undefined) return undefined;
  if (decimals === 0) return baseUnits;
  const isNegative = baseUnits.startsWith("-");
  const digits = baseUnits.slice(isNegative ? 1 : 0).padStart(decimals + 1, "0");
  return `${isNegative ? "-" : ""}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

const line = (cells: readonly CellText[]): string => `${cells.join(",")}\r\n`;

/** A text that begins like a formula is anyone's text here: an apostrophe keeps it one. */
function cellText(cell: Cell): CellText {
  const text = String(cell ?? "");
  const safe = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
