/**
 * Proxies the chain's RPC and enforces rules of public chains that anvil does not:
 * - at most 2^24 gas and 128 KB for a transaction
 * - at most 16 waiting transactions of one key
 * Everything else passes through unchanged.
 */
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { keccak256 } from "turnpike/protocol";
import { signerOf } from "../../facilitator/src/chain/signer-of";
import { serveParent } from "./process";

export type ProxyAsk = { readonly kind: "start"; readonly rpcUrl: string } | { readonly kind: "report" };
export interface ProxyAnswer {
  readonly url: string;
  /** refused transactions by the rule they broke */
  readonly refused: Readonly<Record<string, number>>;
  readonly transactions: number;
  readonly requests: number;
  readonly largestBytes: number;
}

const MAX_GAS = 2n ** 24n;
const MAX_BYTES = 128 * 1_024;
const SLOTS_PER_KEY = 16;

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params: readonly unknown[];
}

const refused: Record<string, number> = {};
const agent = new Agent({ keepAlive: true });
let upstream = "";
let url = "";
let transactions = 0;
let requests = 0;
let largestBytes = 0;

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function forward(body: Buffer | string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    request(upstream, { method: "POST", agent, headers }, resolve).on("error", reject).end(body);
  });
}

async function ask(method: string, params: readonly unknown[]): Promise<string> {
  const answer = await forward(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
  return (JSON.parse((await bodyOf(answer)).toString()) as { result: string }).result;
}

interface Sent {
  readonly from: string;
  readonly nonce: number;
  readonly gasLimit: bigint;
}

/**
 * Parses the fields of a signed EIP-1559 transaction that the rules need. Hand-written, because this process shares the
 * measured cores.
 */
function readTransaction(raw: string): Sent {
  const bytes = Buffer.from(raw.slice(2), "hex");
  const list = itemAt(bytes, 1);
  const items: Item[] = [];
  for (let at = list.start; at < list.end; at = items.at(-1)?.end ?? list.end) items.push(itemAt(bytes, at));
  const [nonce, gasLimit, parity, r, s] = [1, 4, 9, 10, 11].map((place) => {
    const { start, end } = items[place] as Item;
    return bytes.subarray(start, end);
  }) as [Buffer, Buffer, Buffer, Buffer, Buffer];
  const number = (digits: Buffer): bigint => BigInt(`0x0${digits.toString("hex")}`);
  const word = (digits: Buffer): string => digits.toString("hex").padStart(64, "0");
  // The list without its last three items is the signed payload.
  const body = bytes.subarray(list.start, items[8]?.end);
  const digest = keccak256(Buffer.concat([bytes.subarray(0, 1), listHead(body.length), body]));
  const v = (27 + Number(number(parity))).toString(16);
  const from = signerOf(digest, `0x${word(r)}${word(s)}${v}`) ?? "";
  return { from, nonce: Number(number(nonce)), gasLimit: number(gasLimit) };
}

/** Returns where the contents of an RLP item begin and end. */
interface Item {
  readonly start: number;
  readonly end: number;
}

function itemAt(bytes: Buffer, at: number): Item {
  const lead = bytes[at] ?? 0;
  if (lead < 0x80) return { start: at, end: at + 1 };
  const short = lead < 0xc0 ? 0x80 : 0xc0;
  if (lead - short <= 55) return { start: at + 1, end: at + 1 + lead - short };
  const size = lead - short - 55;
  const start = at + 1 + size;
  return { start, end: start + bytes.readUIntBE(at + 1, size) };
}

function listHead(length: number): Buffer {
  if (length <= 55) return Buffer.from([0xc0 + length]);
  const digits = length.toString(16);
  const size = Buffer.from(digits.padStart(digits.length + (digits.length % 2), "0"), "hex");
  return Buffer.concat([Buffer.from([0xf7 + size.length]), size]);
}

/** @returns the rule that the transaction breaks */
async function ruleBrokenBy(raw: string): Promise<string | undefined> {
  transactions++;
  const bytes = raw.length / 2 - 1;
  largestBytes = Math.max(largestBytes, bytes);
  if (bytes > MAX_BYTES) return "oversized data";
  const { gasLimit, from, nonce } = readTransaction(raw);
  if (gasLimit > MAX_GAS) return "transaction gas limit too high";
  const mined = Number(await ask("eth_getTransactionCount", [from, "latest"]));
  return nonce >= mined + SLOTS_PER_KEY ? "too many transactions of one account" : undefined;
}

async function answer(call: Call): Promise<string> {
  if (call.method === "eth_sendRawTransaction") {
    const message = await ruleBrokenBy(String(call.params[0]));
    if (message) {
      refused[message] = (refused[message] ?? 0) + 1;
      return JSON.stringify({ jsonrpc: "2.0", id: call.id, error: { code: -32_000, message } });
    }
  }
  return (await bodyOf(await forward(JSON.stringify({ jsonrpc: "2.0", ...call })))).toString();
}

async function serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
  requests++;
  const body = await bodyOf(message);
  if (!body.includes("eth_sendRawTransaction")) {
    const passed = await forward(body);
    response.writeHead(passed.statusCode ?? 502, passed.headers);
    passed.pipe(response);
    return;
  }
  const asked = JSON.parse(body.toString()) as Call | Call[];
  // In order: the transactions of one request must arrive as they were sent.
  const answers: string[] = [];
  for (const call of Array.isArray(asked) ? asked : [asked]) answers.push(await answer(call));
  response.writeHead(200, { "content-type": "application/json" });
  response.end(Array.isArray(asked) ? `[${answers.join(",")}]` : answers[0]);
}

serveParent<ProxyAsk, ProxyAnswer>(async (message) => {
  if (message.kind === "start") {
    upstream = message.rpcUrl;
    const server = createServer((incoming, response) => {
      serve(incoming, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  return { url, refused, transactions, requests, largestBytes };
});
