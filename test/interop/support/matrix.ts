/** The conformance matrix: what a cell is, how it is tried, and where it is on the page. */
import { readFileSync } from "node:fs";
import path from "node:path";
import type { Client } from "./clients";
import type { Served } from "./gates";
import { type MatrixRow, type Result, recordRow, type Suite } from "./matrix-page";
import type { InteropWorld, Payer, PayerKind, TokenFacts } from "./world";

export type { Result } from "./matrix-page";

/** What is sold: a price, the token it is in, and what else the route offers. */
export interface Offer {
  readonly name: string;
  readonly amount: bigint;
  readonly token: "usdc" | "wide";
  /** the client's own limits are lifted */
  readonly unlimited?: boolean;
  /** default: authorization */
  readonly flow?: "authorization" | "upfront";
  /** how the token is moved; default: EIP-3009 */
  readonly method?: string;
}

type Way = Pick<Offer, "flow" | "method">;

export interface Cell {
  readonly client: string;
  readonly server: string;
  readonly facilitator: string;
  readonly payer: PayerKind;
  readonly offer: string;
  readonly expected: Result;
  /** one line, for what is not paid */
  readonly why?: string | undefined;
}

const EXPECTED = path.resolve(__dirname, "../expected-cells.json");

type CellLine = [string, string, string, PayerKind, string, Result, why?: string];

/**
 * One line a cell: client, server, facilitator, payer, offer, result, and why where it is not paid.
 * @throws TypeError for a cell that is not paid and not explained
 */
export function expectedCells(): Cell[] {
  const lines = JSON.parse(readFileSync(EXPECTED, "utf8")) as CellLine[];
  return lines.map(([client, server, facilitator, payer, offer, expected, why]) => {
    if (expected !== "paid" && !why)
      throw new TypeError(`${client} -> ${server}, ${offer}: not paid, and not explained`);
    return { client, server, facilitator, payer, offer, expected, why };
  });
}

const PROTOCOLS: Readonly<Record<string, string>> = {
  "x402-fetch": "x402 version 1",
  "x402-axios": "x402 version 1",
  "x402-mcp": "x402 version 1",
  "@x402/fetch": "x402 version 2",
  "@x402/axios": "x402 version 2",
  "@x402/fetch, which signs in": "x402 version 2",
  "@x402/fetch, in an MCP client": "x402 version 2",
  "agents/x402": "x402 version 2",
  "payment page": "x402 version 2",
  mppx: "MPP",
  "turnpike agent": "as offered",
};

/** Returns the row of a cell on the page. */
export function rowOf(cell: Cell, offer: Way, result: Result | "failed"): MatrixRow {
  const { client, server, facilitator, payer, expected, why } = cell;
  return {
    at: {
      client,
      server,
      payer,
      Facilitator: facilitator,
      offer: cell.offer,
      protocol: PROTOCOLS[client] ?? "?",
      flow: flowOf(cell, offer),
      "token method": offer.method ?? "EIP-3009",
    },
    expected,
    result,
    why,
  };
}

/**
 * A native proof has settled before it is presented; a Facilitator of another make reserves nothing. Over Permit2 there
 * are no native payments.
 */
function flowOf({ client, server, facilitator }: Cell, { flow = "authorization", method }: Way): string {
  if (!server.startsWith("turnpike ")) return flow;
  if (facilitator !== "turnpike") return "upfront";
  return client === "turnpike agent" && method === undefined ? "proof" : flow;
}

/** A cell of a suite of its own, which is to be paid. */
export interface PaidCell extends Pick<Cell, "client" | "server" | "offer">, Way {
  /** default: key */
  readonly payer?: PayerKind;
  /** default: this project's */
  readonly facilitator?: string;
}

/** Records a cell of a suite of its own: paid where `pay` resolves, failed where it rejects. */
export async function recordPaid(suite: Suite, at: PaidCell, pay: () => Promise<void>): Promise<void> {
  const cell: Cell = { payer: "key", facilitator: "turnpike", expected: "paid", ...at };
  let result: Result | "failed" = "failed";
  try {
    await pay();
    result = "paid";
  } finally {
    recordRow(suite, rowOf(cell, at, result));
  }
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
