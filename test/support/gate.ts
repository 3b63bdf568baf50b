/**
 * A provider under test over real HTTP: Express or Hono in front, and a small Facilitator that signs real proofs.
 * Payments are not settled here; where the chain matters, a test brings one (chain.ts).
 */
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { createAdaptorServer } from "@hono/node-server";
import express, { type Express } from "express";
import { Hono } from "hono";
import {
  createProvider,
  type GateOptions,
  memoryClaims,
  type Payment,
  type Provider,
  type ProviderOptions,
} from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { honoGate } from "turnpike/gate/hono";
import {
  type AcceptEntryWire,
  type Address,
  addressOfKey,
  checksum,
  encodePaymentProof,
  type Hex,
  keccakText,
  NO_TRANSACTION,
  type PaymentProof,
  type PaymentRequiredWire,
  paymentIdOf,
  permit2NonceOf,
  permit2PaymentIdOf,
  signGrant,
  signProof,
} from "turnpike/protocol";

/** Test keys only: derived from their names. */
export const keyOf = (name: string): Hex => keccakText(`turnpike test key ${name}`);
export const addressOf = (name: string) => addressOfKey(keyOf(name));

export const TOKEN = checksum(`0x${"70".repeat(20)}`);
export const PAY_TO = addressOf("treasury");
export const CHAIN_ID = 31_337;
export const NOW = 1_800_000_000;

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of all shapes are asserted on
  readonly json: any;
}

export interface Sent {
  readonly method?: string;
  /** the raw request target, sent as it is */
  readonly path?: string;
  readonly headers?: Record<string, string | string[]>;
  readonly body?: string;
}

/** One request with nothing normalised: raw target, repeated headers. */
export function send(url: string, { method = "GET", path, headers = {}, body }: Sent = {}): Promise<Answer> {
  const { hostname, port, pathname, search } = new URL(url);
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(
      { hostname, port, method, path: path ?? `${pathname}${search}`, headers, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: parse(text) });
        });
      },
    );
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The server of a fetch-style handler; to listen on. */
export const fetchServer = (fetch: Parameters<typeof createAdaptorServer>[0]["fetch"]): Server =>
  createAdaptorServer({ fetch, hostname: "127.0.0.1" }) as Server;

export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

// ------------------------------------------------------------------ Facilitator

export interface SmallFacilitator {
  readonly url: string;
  readonly signer: Hex;
  /** what it answers on /proofs/verify; "down" cuts every connection */
  mode: "valid" | "reversed" | "down" | "broken";
  /** it answers nothing before this resolves */
  held: Promise<unknown> | undefined;
  /** which paths that holds; default all */
  holds: (path: string) => boolean;
  /** requests by path */
  readonly calls: { path: string; body: unknown }[];
  /** answers to /settle in turn, before `settle` is asked */
  readonly settlements: object[];
  /** answers /settle; as an honest one would unless a test says otherwise */
  settle(asked: SettleBody): object | Promise<object>;
  /** answers /verify; as an honest one would that reserves, unless a test says otherwise */
  verify(asked: SettleBody): object | Promise<object>;
  /** grant ids by payment, while they are reserved */
  readonly reserved: Map<string, string>;
  /** answers `POST /payments/{id}/refund`: status and body; default a 202 */
  refund(paymentId: string, authorization: string | undefined): { readonly status: number; readonly json: object };
  /** of every payment that is asked for by id */
  status: string;
  /** answer to /supported */
  supported: object;
  stop(): Promise<void>;
}

export async function startSmallFacilitator(): Promise<SmallFacilitator> {
  const calls: SmallFacilitator["calls"] = [];
  const settlements: object[] = [];
  const server = createServer((request, response) => void answer(request, response));
  const url = await listen(server);
  const facilitator: SmallFacilitator = {
    url,
    signer: addressOf("facilitator"),
    mode: "valid",
    held: undefined,
    holds: () => true,
    calls,
    settlements,
    settle: (asked) => signedSettlement(asked, `0x${"ab".repeat(32)}`, "facilitator"),
    verify(asked) {
      const { payer } = signedIn(asked);
      const id = paymentIn(asked);
      const holder = facilitator.reserved.get(id) ?? asked.grant?.id;
      if (holder !== asked.grant?.id) return { isValid: false, invalidReason: "payment_already_granted", payer };
      if (holder) facilitator.reserved.set(id, holder);
      return { isValid: true, payer, ...(holder && { reserved: true }) };
    },
    reserved: new Map(),
    refund: (id) => ({ status: 202, json: { status: "pending", id } }),
    status: "unknown",
    supported: SUPPORTED,
    stop: () => closeServer(server),
  };
  return facilitator;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request).catch(() => undefined);
    // The client disconnected in the middle of it.
    if (body === undefined) return;
    if (!/^\/(?:supported$|payments\/)/.test(request.url ?? ""))
      calls.push({ path: request.url ?? "", body: parse(body) });
    if (facilitator.holds(request.url ?? "")) await facilitator.held;
    if (facilitator.mode === "down") return void request.socket.destroy();
    if (facilitator.mode === "broken") return json(response, 500, { oops: true });
    if (request.url === "/proofs/verify") {
      return json(response, 200, facilitator.mode === "valid" ? { valid: true } : { valid: false, reason: "reversed" });
    }
    if (request.url === "/settle") {
      const asked = parse(body) as SettleBody;
      return json(response, 200, settlements.shift() ?? (await facilitator.settle(asked)));
    }
    if (request.url === "/verify") return json(response, 200, await facilitator.verify(parse(body) as SettleBody));
    const [, ended] = /^\/payments\/(.*)\/release$/.exec(request.url ?? "") ?? [];
    if (ended !== undefined) {
      const { grantId } = parse(body) as { grantId: string };
      const released = facilitator.reserved.get(ended) === grantId && facilitator.reserved.delete(ended);
      return json(response, 200, { released });
    }
    const [, refunded] = /^\/payments\/(.*)\/refund$/.exec(request.url ?? "") ?? [];
    if (refunded !== undefined) {
      const answered = facilitator.refund(refunded, request.headers.authorization);
      return json(response, answered.status, answered.json);
    }
    const [, id] = /^\/payments\/(.*)$/.exec(request.url ?? "") ?? [];
    if (id !== undefined) return json(response, 200, { id, status: facilitator.status });
    if (request.url === "/supported") return json(response, 200, facilitator.supported);
    return json(response, 404, {});
  }
}

interface SignedTransfer {
  readonly from: string;
  readonly to: string;
  readonly value: string;
  readonly nonce: string;
}

interface SignedPermit {
  readonly from: string;
  readonly permitted: { readonly token: string; readonly amount: string };
  readonly nonce: string;
  readonly witness: { readonly to: string; readonly facilitator?: string };
}

export interface SettleBody {
  readonly paymentPayload: {
    readonly payload: { readonly authorization: SignedTransfer } | { readonly permit2Authorization: SignedPermit };
  };
  readonly paymentRequirements: { readonly asset: string; readonly amount?: string };
  readonly grant?: { readonly id: string; readonly resource: string };
}

interface SignedFacts {
  readonly payer: Address;
  readonly payTo: Address;
  /** what is charged */
  readonly amount: bigint;
  readonly isUpto: boolean;
  readonly paymentId: Hex;
}

function signedIn({ paymentPayload: { payload }, paymentRequirements }: SettleBody, chainId = CHAIN_ID): SignedFacts {
  const token = checksum(paymentRequirements.asset);
  if ("authorization" in payload) {
    const { from, to, value, nonce } = payload.authorization;
    const payer = checksum(from);
    const paymentId = paymentIdOf({ chainId, token, payer, nonce: nonce as Hex });
    return { payer, payTo: checksum(to), amount: BigInt(value), isUpto: false, paymentId };
  }
  const { from, permitted, nonce, witness } = payload.permit2Authorization;
  const isUpto = witness.facilitator !== undefined;
  const payer = checksum(from);
  return {
    payer,
    payTo: checksum(witness.to),
    isUpto,
    amount: BigInt((isUpto && paymentRequirements.amount) || permitted.amount),
    paymentId: permit2PaymentIdOf({ chainId, token, payer, nonce: permit2NonceOf(BigInt(nonce)) }),
  };
}

const paymentIn = (asked: SettleBody): Hex => signedIn(asked).paymentId;

/** What `/settle` answers when it grants the payment to any gate, signed with the key of that name. */
export function signedSettlement(asked: SettleBody, transaction: Hex, signer: string, chainId = CHAIN_ID) {
  const { payer, payTo, amount, isUpto, paymentId } = signedIn(asked, chainId);
  const { paymentRequirements, grant } = asked;
  const isWaived = isUpto && amount === 0n;
  const charged = isUpto ? { amount: String(amount) } : {};
  const named = { transaction: isWaived ? "" : transaction, network: `local-${chainId}`, ...charged };
  const settlement = { success: true, payer, ...named };
  if (!grant) return settlement;
  const facts = {
    chainId,
    token: checksum(paymentRequirements.asset),
    paymentId,
    resourceHash: keccakText(grant.resource),
    payTo,
    amount,
    transaction: isWaived ? NO_TRANSACTION : transaction,
    grantId: grant.id as Hex,
    facilitator: addressOf(signer),
  };
  return { ...settlement, grant: { facilitator: facts.facilitator, signature: signGrant(facts, keyOf(signer)) } };
}

/** Enough of `/supported` for a gate. */
export const SUPPORTED = {
  kinds: [],
  extensions: [],
  signers: {},
  network: `local-${CHAIN_ID}`,
  chainId: CHAIN_ID,
  turnpike: checksum(`0x${"71".repeat(20)}`),
  batchSettler: checksum(`0x${"72".repeat(20)}`),
  proofSigners: [addressOf("facilitator")],
  relayers: [],
  tokens: [],
  paymentGrants: true,
};

/** Of a Facilitator that reserves payments while their handlers run. */
export const RESERVING = { ...SUPPORTED, reservations: true };

/** Of a Facilitator that settles payments over Permit2 too, `upto` by the key of the name "settler". */
export const OVER_PERMIT2 = {
  ...RESERVING,
  kinds: [
    {
      x402Version: 2,
      scheme: "upto",
      network: `eip155:${CHAIN_ID}`,
      extra: { facilitatorAddress: addressOf("settler") },
    },
  ],
  relayers: [addressOf("settler"), addressOf("former settler")],
  transferMethods: ["eip3009", "permit2"],
  extensions: ["eip2612GasSponsoring"],
};

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

// ------------------------------------------------------------------ provider

export interface TestClock {
  sec: number;
  nowSec(): number;
}

export const testClock = (): TestClock => ({
  sec: NOW,
  nowSec() {
    return this.sec;
  },
});

export const testProvider = (facilitator: SmallFacilitator, more: ProviderOptions = {}): Provider =>
  createProvider(testOptions(facilitator, more));

export function testOptions(facilitator: SmallFacilitator, more: ProviderOptions = {}): ProviderOptions {
  return {
    network: `local-${CHAIN_ID}`,
    token: { address: TOKEN, name: "Test USD", version: "1" },
    payTo: PAY_TO,
    facilitator: { url: facilitator.url, signers: [facilitator.signer] },
    secret: "a secret of this test, long enough to be one",
    claims: memoryClaims({ warn: false }),
    clock: { nowSec: () => NOW },
    // What a claim allows is seen without the answers that are replayed; test/sdk/gate/replay/replay.ts turns them on.
    replay: false,
    ...more,
  };
}

export interface RouteSpec {
  readonly path: string;
  readonly gate: GateOptions<never>;
  /** default: 200 with what was granted */
  readonly handle?: (payment: Payment) => Handled | (() => Promise<Handled | undefined>);
}

interface Handled {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

async function handled(spec: RouteSpec, payment: Payment): Promise<Handled> {
  const made = spec.handle?.(payment);
  return (typeof made === "function" ? await made() : made) ?? {};
}

export interface TestServer {
  readonly url: string;
  /** how often each path's handler ran */
  readonly served: Map<string, number>;
  stop(): Promise<void>;
}

/** The same routes behind a real framework. */
export const FRAMEWORKS = { express: startExpress, hono: startHono } as const;
export type Framework = keyof typeof FRAMEWORKS;

const grantOf = (payment: Payment) =>
  JSON.stringify({ kind: payment.kind, ...(payment.kind === "one-time" ? { payer: payment.payer } : {}) });

async function startExpress(provider: Provider, routes: readonly RouteSpec[]): Promise<TestServer> {
  const app: Express = express();
  const served = new Map<string, number>();
  for (const spec of routes) {
    const { path, gate } = spec;
    app.use(path, expressGate(provider.gate(gate)), async (request, response) => {
      served.set(path, (served.get(path) ?? 0) + 1);
      const payment = request.payment as Payment;
      const { status = 200, headers = {}, body = grantOf(payment) } = await handled(spec, payment);
      response
        .status(status)
        .set({ "Content-Type": "application/json", ...headers })
        .send(body);
    });
  }
  app.use((_error: unknown, _request: unknown, response: express.Response, _next: unknown) => {
    response.status((_error as { status?: number }).status ?? 500).json({ error: "handler" });
  });
  const server = createServer(app);
  return { url: await listen(server), served, stop: () => closeServer(server) };
}

async function startHono(provider: Provider, routes: readonly RouteSpec[]): Promise<TestServer> {
  const app = new Hono();
  const served = new Map<string, number>();
  for (const spec of routes) {
    const { path, gate } = spec;
    const run = honoGate(provider.gate(gate));
    const handler = async (c: { get(name: "payment"): Payment }) => {
      served.set(path, (served.get(path) ?? 0) + 1);
      const payment = c.get("payment");
      const { status = 200, headers = {}, body = grantOf(payment) } = await handled(spec, payment);
      return new Response(body, { status, headers: { "Content-Type": "application/json", ...headers } });
    };
    app.all(path, run as never, handler as never);
    app.all(`${path}/*`, run as never, handler as never);
  }
  app.onError((error, c) => c.json({ error: "handler" }, ((error as { status?: number }).status ?? 500) as never));
  const server = fetchServer(app.fetch);
  return { url: await listen(server), served, stop: () => closeServer(server) };
}

// ------------------------------------------------------------------ proofs

export const ONE_TIME = [{ type: "one-time", amount: 500_000n }] as const;

export async function quoteOf(url: string, sent: Sent = {}): Promise<PaymentRequiredWire> {
  const answer = await send(url, sent);
  if (answer.status !== 402) throw new TypeError(`expected a 402, got ${answer.status}: ${answer.text}`);
  return answer.json as PaymentRequiredWire;
}

export interface ProofFields extends Partial<PaymentProof> {
  /** name of the key that signs; its address is the proof's facilitator */
  readonly signedBy?: string;
  readonly chainId?: number;
}

/** The proof of a payment for one entry of a 402, as the Facilitator would sign it. */
export function proofOf(
  entry: AcceptEntryWire,
  { signedBy = "facilitator", chainId = CHAIN_ID, ...fields }: ProofFields = {},
): PaymentProof {
  return signProof(
    {
      version: "1",
      network: entry.network,
      token: checksum(entry.token ?? TOKEN),
      payer: addressOf("payer"),
      payTo: checksum(entry.payTo),
      amount: BigInt(entry.amount ?? "0"),
      memo: entry.memo ?? "",
      resource: entry.resource ?? "",
      transaction: `0x${"cd".repeat(32)}`,
      blockNumber: 7,
      settledAt: NOW,
      expiresAt: NOW + 604_800,
      facilitator: addressOf(signedBy),
      ...fields,
    },
    chainId,
    keyOf(signedBy),
  );
}

export const headerOf = (proof: PaymentProof) => ({ "X-PAYMENT": encodePaymentProof(proof) });

/** Quote, pay, and what the paid retry would send. */
export async function paidHeaders(url: string, fields: ProofFields = {}, sent: Sent = {}) {
  const [entry] = (await quoteOf(url, sent)).accepts;
  if (!entry) throw new TypeError("the 402 offers nothing");
  return headerOf(proofOf(entry, fields));
}
