/** The page of the conformance matrix: rows of every suite that contributes, one column for each dimension. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

export type Result = "paid" | "not paid";

/** In the order of the columns; the page has a section for each server. Another dimension is one more word here. */
const DIMENSIONS = [
  "client",
  "x402 version",
  "server",
  "Facilitator",
  "flow",
  "token method",
  "payer",
  "offer",
] as const;

type Dimension = (typeof DIMENSIONS)[number];

/** One cell that was tried: its place in each dimension, and its result. */
export interface MatrixRow {
  readonly at: Readonly<Record<Dimension, string>>;
  readonly expected: Result;
  readonly result: Result | "failed";
  /** one line, for what is not paid */
  readonly why?: string | undefined;
}

/** The suites whose rows the page has. A run that leaves one out does not write it. */
const SUITES = ["matrix", "permit2", "upto-gate"] as const;

export type Suite = (typeof SUITES)[number];

const recorded = new Map<Suite, MatrixRow[]>();

/** Records what one test has tried. */
export function recordRow(suite: Suite, row: MatrixRow): void {
  recorded.set(suite, [...(recorded.get(suite) ?? []), row]);
}

const PAGE = path.resolve(__dirname, "../../../out/interop/matrix.md");

/** Writes the page and prints its overview. It is a function of the rows alone: an unchanged run changes nothing. */
export function writePage(): void {
  if (SUITES.some((suite) => !recorded.has(suite))) return;
  const rows = SUITES.flatMap((suite) => recorded.get(suite) ?? []);
  const overview = overviewOf(rows);
  const sections = [...grouped(rows, "server")].map(([server, own]) => `## ${server}\n\n${tableOf(own)}`);
  mkdirSync(path.dirname(PAGE), { recursive: true });
  writeFileSync(PAGE, `${HEAD}\n## Overview\n\n${LEGEND}\n\n${overview}\n\n${sections.join("\n\n")}\n`);
  process.stdout.write(`\n${overview}\n\n`);
}

function tableOf(rows: readonly MatrixRow[]): string {
  const columns = DIMENSIONS.filter((dimension) => dimension !== "server");
  const lines = rows.map((row) => [...columns.map((column) => row.at[column]), shown(row), row.why ?? ""]);
  return table([...columns, "result", "why"], lines);
}

const shown = ({ result, expected }: MatrixRow): string =>
  result === expected ? result : `**${result}** (expected: ${expected})`;

/** Clients by servers: how many cells were paid, how many were refused as they should be, and how many failed. */
function overviewOf(rows: readonly MatrixRow[]): string {
  const servers = [...grouped(rows, "server").keys()];
  const lines = [...grouped(rows, "client")].map(([client, own]) => {
    const at = grouped(own, "server");
    return [client, ...servers.map((server) => countsOf(at.get(server) ?? []))];
  });
  return table(["client", ...servers], lines);
}

function countsOf(rows: readonly MatrixRow[]): string {
  const sound = rows.filter(({ result, expected }) => result === expected);
  const paid = sound.filter(({ result }) => result === "paid").length;
  const failed = rows.length - sound.length;
  if (rows.length === 0) return "";
  return `${paid} / ${sound.length - paid}${failed > 0 ? ` / **${failed} failed**` : ""}`;
}

function grouped(rows: readonly MatrixRow[], dimension: Dimension): Map<string, MatrixRow[]> {
  const groups = new Map<string, MatrixRow[]>();
  for (const row of rows) groups.set(row.at[dimension], [...(groups.get(row.at[dimension]) ?? []), row]);
  return groups;
}

function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const rule = `|${head.map(() => "---|").join("")}`;
  const [titles, ...rest] = [head, ...lines].map((cells) => `| ${cells.join(" | ")} |`);
  return [titles, rule, ...rest].join("\n");
}

const LEGEND = "Paid cells / cells that are refused as they should be, each with its reason below.";

const HEAD = `# Which client pays which server through which Facilitator

Written by \`npm run test:interop\`. Every cell was tried with real HTTP, a real chain (Base Sepolia's id) and
the stock packages in \`test/interop/package-lock.json\`. The results are listed beforehand in
\`test/interop/expected-cells.json\`; any other result fails the run.

- **paid**: one transfer of exactly the price, one run of the handler, status 200, and a receipt that the client's own
  helper reads and that names the transfer on the chain.
- **not paid**: no transfer, and the handler did not run: the client or the server refused, as it should here.
- Token method: \`EIP-3009\`, or \`Permit2\` by an approval that the payer has made before. \`Permit2, permit\`: the payer has
  neither an approval nor gas, and sends the token's permit along. An "up to" offer moves what the handler charges.
- Flows: \`authorization\` settles after the handler, \`upfront\` before it. \`proof\` is this project's own: the agent has the
  payment settled, and presents the Facilitator's proof.
- Payers: \`key\` is a plain account, \`ERC-1271\` a contract wallet whose owner signs, \`ERC-6492\` such a wallet that is not
  deployed yet, \`EIP-7702\` an account that has delegated itself to such a wallet's code.
- "Facilitator: turnpike" is this project's; the others are made of the stock packages' own verify and settle.
`;
