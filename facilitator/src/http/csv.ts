/** Rows as CSV (RFC 4180) that a spreadsheet opens and does not run. */
export type Cell = string | number | boolean | undefined;

export interface Sheet<T> {
  readonly columns: Readonly<Record<string, (row: T) => Cell>>;
}

export function toCsv<T>({ columns }: Sheet<T>, rows: readonly T[]): string {
  const lines = [Object.keys(columns), ...rows.map((row) => Object.values(columns).map((cell) => cell(row)))];
  return lines.map((cells) => `${cells.map(cellText).join(",")}\r\n`).join("");
}

/** A text that begins like a formula is anyone's text here: an apostrophe keeps it one. */
function cellText(cell: Cell): string {
  const text = String(cell ?? "");
  const safe = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
