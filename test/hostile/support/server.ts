/** The other direction: a gated URL is asked in every way that the tables of tricks know, and is to serve none of them. */
import { HEADS } from "./tricks/heads";
import { type Outcome, outcomeOf } from "./tricks/outcome";
import { base64, MALFORMED } from "./tricks/payloads";
import { TARGETS } from "./tricks/targets";
import { ask, type RawAnswer, type RawRequest } from "./tricks/wire";

export interface ServerResult {
  readonly id: string;
  readonly kind: "safe" | "unsafe";
  readonly saw: Outcome;
  readonly status: number | undefined;
}

/** What nobody has paid for, in the shape of a proof. */
const UNPAID = JSON.stringify({
  version: "1",
  network: "base-mainnet",
  token: `0x${"11".repeat(20)}`,
  payer: `0x${"22".repeat(20)}`,
  payTo: `0x${"33".repeat(20)}`,
  amount: "500000",
  memo: "a.b.1.c",
  resource: "https://api.example/paid",
  transaction: `0x${"44".repeat(32)}`,
  blockNumber: 7,
  settledAt: 1_800_000_000,
  expiresAt: 1_800_604_800,
  facilitator: `0x${"55".repeat(20)}`,
  signature: `0x${"66".repeat(65)}`,
});

interface Trick {
  readonly id: string;
  readonly request: Omit<RawRequest, "target"> & { readonly target?: string };
}

export function tricksOf(path: string): readonly Trick[] {
  const encoded = base64(UNPAID);
  return [
    ...TARGETS.slice(1).map(([what, target]) => ({ id: `target: ${what}`, request: { target: target(path) } })),
    ...HEADS.map(([what, lines]) => ({ id: `header: ${what}`, request: { lines: lines(encoded) } })),
    ...MALFORMED.map(([what, value]) => ({
      id: `payload: ${what}`,
      request: { lines: [`X-PAYMENT: ${value(UNPAID)}`] },
    })),
    ...["HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY", "get"].map((method) => ({
      id: `method: ${method}`,
      request: { method, lines: ["Content-Length: 0", "X-HTTP-Method-Override: GET"] },
    })),
  ];
}

/** Whether the plain request is asked to pay at all: a server that serves everybody passes nothing. */
export async function asksForPayment(url: string): Promise<boolean> {
  return (await ask(url, { target: targetOf(url) }))?.status === 402;
}

export async function* tryServer(url: string, only = ""): AsyncGenerator<ServerResult> {
  for (const { id, request } of tricksOf(targetOf(url))) {
    if (!id.startsWith(only)) continue;
    const answer = await ask(url, { target: targetOf(url), ...request });
    yield { id, kind: isSafe(answer) ? "safe" : "unsafe", saw: outcomeOf(answer), status: answer?.status };
  }
}

function targetOf(url: string): string {
  const { pathname, search } = new URL(url);
  return `${pathname}${search}`;
}

/** Served unpaid, or broken by what was sent. */
const isSafe = (answer: RawAnswer | undefined): boolean =>
  answer === undefined || answer.status < 200 || (answer.status >= 204 && answer.status < 500) || answer.status === 501;
