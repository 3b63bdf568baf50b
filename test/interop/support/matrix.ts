/** The conformance matrix: what a cell is, how it is tried, and the page that a run writes. */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Client } from "./clients";
import type { Served } from "./gates";
import type { InteropWorld, Payer, PayerKind, TokenFacts } from "./world";

export const RESULTS = ["paid", "not paid"] as const;
export type Result = (typeof RESULTS)[number];

/** What is sold: a price, the token it is in, and what else the route offers. */
export interface Offer {
  readonly name: string;
  readonly amount: bigint;
  readonly token: "usdc" | "wide";
  /** the client's own limits are lifted */
  readonly unlimited?: boolean;
}

export interface Cell {
  readonly client: string;
  readonly server: string;
  readonly facilitator: string;
  readonly payer: PayerKind;
  readonly offer: string;
  readonly expected: Result;
}

const EXPECTED = path.resolve(__dirname, "../expected-cells.json");
const PAGE = path.resolve(__dirname, "../../../docs/engineering/interop-matrix.md");

/** One line a cell: client, server, facilitator, payer, offer, result. */
export function expectedCells(): Cell[] {
  const rows = JSON.parse(readFileSync(EXPECTED, "utf8")) as [string, string, string, PayerKind, string, Result][];
  return rows.map(([client, server, facilitator, payer, offer, expected]) => ({
    client,
    server,
    facilitator,
    payer,
    offer,
    expected,
  }));
}

export interface Trial {
  readonly world: InteropWorld;
  readonly client: Client;
  readonly server: Served;
  readonly url: string;
  readonly offer: Offer;
  readonly payer: Payer;
}

/**
 * Pays once and looks at the chain: "paid" is one transfer of exactly the price, one run of the handler, 200, and a
 * receipt that the client's own helper reads and that names the transfer; "not paid" is none of these.
 * @throws AssertionError-like TypeError for anything between
 */
export async function tryCell({ world, client, server, url, offer, payer }: Trial): Promise<Result> {
  const token: TokenFacts = world[offer.token];
  const runsBefore = server.runs();
  let status = 0;
  let reported: string | undefined;
  let why = "";
  try {
    const paid = await client.pay(url, payer, { unlimited: offer.unlimited ?? false });
    status = paid.status;
    reported = paid.receipt?.success ? paid.receipt.transaction : undefined;
    why = paid.body.slice(0, 300);
  } catch (error) {
    why = error instanceof Error ? error.message.slice(0, 300) : String(error);
  }
  const moved = await world.transfers(payer.address, token);
  const runs = server.runs() - runsBefore;
  if (status !== 200 && moved.length === 0 && runs === 0) return "not paid";
  const receipt = reported === undefined ? null : await world.chain.provider.getTransactionReceipt(reported);
  const facts = { status, moved, runs, reported, why };
  const isPaid =
    status === 200 && moved.length === 1 && moved[0] === offer.amount && runs === 1 && receipt?.status === 1;
  if (isPaid) return "paid";
  throw new TypeError(
    `neither paid nor unpaid: ${JSON.stringify(facts, (_key, v) => (typeof v === "bigint" ? `${v}` : v))}`,
  );
}

const VERSION: Readonly<Record<string, string>> = {
  "x402-fetch": "1",
  "x402-axios": "1",
  "@x402/fetch": "2",
  "@x402/axios": "2",
  "turnpike agent": "as offered",
};

/** The page is a function of the results alone, so that an unchanged run changes nothing. */
export function writePage(results: readonly (Cell & { readonly result: Result | "failed" })[]): void {
  const groups = new Map<string, typeof results>();
  for (const cell of results) {
    const key = cell.server;
    groups.set(key, [...(groups.get(key) ?? []), cell]);
  }
  const sections = [...groups].map(([server, cells]) => {
    const rows = cells.map(({ client, facilitator, payer, offer, expected, result }) => {
      const shown = result === expected ? result : `**${result}** (expected: ${expected})`;
      return `| ${client} | ${VERSION[client] ?? "?"} | ${facilitator} | ${payer} | ${offer} | ${shown} |`;
    });
    return [
      `## ${server}`,
      "",
      "| client | x402 version | Facilitator | payer | offer | result |",
      "|---|---|---|---|---|---|",
      ...rows,
    ].join("\n");
  });
  writeFileSync(PAGE, `${HEAD}\n${sections.join("\n\n")}\n`);
}

const HEAD = `# Which client pays which server through which Facilitator

Written by \`npm run test:interop\`; do not edit. Every cell was tried with real HTTP, a real chain (Base Sepolia's id) and
the stock packages in \`test/interop/package-lock.json\`. The results are listed beforehand in
\`test/interop/expected-cells.json\`; any other result fails the run.

- **paid**: one transfer of exactly the price, one run of the handler, status 200, and a receipt that the client's own
  helper reads and that names the transfer on the chain.
- **not paid**: no transfer, and the handler did not run: the client or the server refused, as it should here.
- Payers: \`key\` is a plain account, \`ERC-1271\` a contract wallet whose owner signs, \`ERC-6492\` such a wallet that is not
  deployed yet, \`EIP-7702\` an account that has delegated itself to such a wallet's code.
- "Facilitator: turnpike" is this project's; the others are made of the stock packages' own verify and settle.
`;
