/** Text of reference pages: first sentences and tables. */

/** Abbreviations whose full stop ends no sentence. */
const ABBREVIATION = /\b(?:e\.g|i\.e|vs|etc)\.$/;

/** @returns text up to its first full stop before a space, on one line */
function firstSentence(text) {
  const line = text.replaceAll(/\s+/g, " ").trim();
  const plain = line.replaceAll(/`[^`]*`/g, (code) => "`".repeat(code.length));
  for (const { 0: end, index } of plain.matchAll(/[.!?][)"*]*(?=\s|$)/g)) {
    if (!ABBREVIATION.test(plain.slice(0, index + 1))) return line.slice(0, index + end.length);
  }
  return line;
}

const cell = (text) => text.replaceAll("|", "\\|").replaceAll("\n", " ");

/** @returns lines of a Markdown table; none without rows */
function tableOf(columns, rows) {
  if (rows.length === 0) return [];
  const line = (cells) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(columns), `|${"---|".repeat(columns.length)}`, ...rows.map(line), ""];
}

module.exports = { firstSentence, tableOf };
