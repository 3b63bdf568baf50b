/** The page of the conformance matrix: rows of every suite that contributes, one column for each dimension. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

export type Result = "paid" | "not paid";

/** In the order of the columns; the page has a section for each server. Another dimension is one more word here. */
const DIMENSIONS = ["client", "protocol", "server", "Facilitator", "flow", "token method", "payer", "offer"] as const;

type Dimension = (typeof DIMENSIONS)[number];

/** One cell that was tried: its place in each dimension, and its result. */
export interface MatrixRow {
  readonly at: Readonly<Record<Dimension, string>>;
  readonly expected: Result;
  readonly result: Result | "failed";
  /** one line, for what is not paid */
  readonly why?: string | undefined;
}

/** The suites whose rows the page has. */
const SUITES = [
  "matrix",
  "permit2",
  "upto-gate",
  "extensions",
  "mppx",
  "mcp-server",
  "mcp-client",
  "mcp-v2",
  "one-provider",
] as const;

export type Suite = (typeof SUITES)[number];

const FOLDER = path.resolve(__dirname, "../../../out/interop");

/** Of the files that this process runs. */
const recorded = new Map<Suite, MatrixRow[]>();

const fileOf = (suite: Suite): string => path.join(FOLDER, "rows", `${suite}.json`);

/**
 * Records what one test has tried, and writes the page again once each suite has rows. Files run in processes of their
 * own, so the rows of the others are read.
 */
export function recordRow(suite: Suite, row: MatrixRow): void {
  const own = [...(recorded.get(suite) ?? []), row];
  recorded.set(suite, own);
  mkdirSync(path.dirname(fileOf(suite)), { recursive: true });
  writeFileSync(fileOf(suite), JSON.stringify(own));
  if (SUITES.every((each) => existsSync(fileOf(each)))) writePage();
}

/** Writes the page. It is a function of the rows alone: an unchanged run changes nothing. */
function writePage(): void {
  const rows = SUITES.flatMap((suite) => JSON.parse(readFileSync(fileOf(suite), "utf8")) as MatrixRow[]);
  const sections = [...grouped(rows, "server")].map(([server, own]) => `## ${server}\n\n${tableOf(own)}`);
  const page = `${HEAD}\n## Overview\n\n${LEGEND}\n\n${overviewOf(rows)}\n\n${sections.join("\n\n")}\n`;
  writeFileSync(path.join(FOLDER, "matrix.md"), page);
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
the stock packages in \`test/interop/package-lock.json\`. The results are listed beforehand, most of them in
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
- Over MCP the client is the package that signs: tools of "MCP v2" are called by \`@modelcontextprotocol/client\`.
- \`@x402/next\` has no client. By \`proxy\` it settles before the route runs, whatever the flow.
- "Facilitator: turnpike" is this project's; the others are made of the stock packages' own verify and settle.
`;
