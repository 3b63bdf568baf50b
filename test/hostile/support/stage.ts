/**
 * One hostile case's world: a gate that speaks every dialect of 402 at once and lies where the case says so, a Facilitator
 * that settles or does not, and a chain that is a set of spent nonces. All of it judges by the rules of the wire.
 */
import {
  type Address,
  addressOfKey,
  checksum,
  encodeJsonHeader,
  type Hex,
  issueMemo,
  keccakText,
  parseMemo,
  parsePaymentProof,
  parseStrictJson,
  paymentIdOf,
  paymentNonce,
  proofToWire,
  randomRef,
  refOfIdempotencyKey,
  signProof,
  type UnsignedPaymentProof,
} from "turnpike/protocol";
import { type Authorization, authorizationsIn } from "./disclosed";
import { type Answer, type HostileServer, type Seen, Servers } from "./servers";

/** Keys of tests, derived from their role: worthless anywhere else. */
export const keyOf = (role: string): Hex => keccakText(`turnpike hostile test key: ${role}`);
export const addressOf = (role: string): Address => addressOfKey(keyOf(role));

export const CHAIN_ID = 84_532;
/** Base Sepolia's USDC: stock clients take no token and no network that they do not know. */
export const TOKEN = checksum("0x036CbD53842c5426634e7929541eC2318f3dCF7e");
export const PRICE = 50_000n;
export const DIALECTS = ["turnpike", "x402-v1", "x402-v2"] as const;
/** What the gate offers: one dialect alone, so that a client that speaks several is tried in each. */
export type Dialect = (typeof DIALECTS)[number];

const MEMO_KEY = { id: "k1", secret: new Uint8Array(32).fill(7) };
const DOMAIN = { name: "USDC", version: "2" };
const nowSec = () => Math.floor(Date.now() / 1_000);

/** One offer, before it is written in a dialect. Lies are changes of it. */
export interface Facts {
  readonly scheme: string;
  readonly network: string;
  readonly caip2: string;
  readonly token: string;
  readonly amount: string;
  readonly payTo: string;
  readonly resource: string;
  readonly maxTimeoutSeconds: number;
  readonly memoExpirySec: number;
  readonly facilitator: string;
  readonly extra: Readonly<Record<string, unknown>>;
  /** further fields of the entry, whatever they are called */
  readonly more: Readonly<Record<string, unknown>>;
}

/** What the gate does with the next requests that bear a payment; when it runs out, it serves. */
export type GateStep =
  | Answer
  | "settle_then_drop"
  | "settle_then_502"
  | "settle_then_402"
  | "settle_then_granted"
  | "settle_then_pending"
  | "refuse"
  | "serve";
/** What the Facilitator does with the next posts to /authorize; when it runs out, it settles. */
export type FacilitatorStep =
  | "settle"
  | "pending"
  | "settle_then_drop"
  | "settle_then_502"
  | "settle_then_refuse"
  | "hang"
  | { readonly forge: Partial<UnsignedPaymentProof> }
  | { readonly redirect: string };

export interface GateOptions {
  /** what a 402 of version 1 says beside it in the header of version 2, and one of version 2 in its body */
  readonly beside?: (facts: Facts) => Facts;
  readonly lie?: (facts: Facts, nth: number) => Facts;
  readonly steps?: readonly GateStep[];
  /** instead of the quote, for requests that bear no payment; undefined: the quote */
  readonly unpaid?: (request: Seen) => Answer | undefined;
  readonly steadily?: GateStep;
}

export class Stage {
  readonly servers = new Servers();
  readonly moved = new Map<string, Authorization>();
  readonly gates: HostileServer[] = [];
  /** drives the Facilitator; a copy of `steadily` follows when it runs out */
  readonly facilitatorSteps: FacilitatorStep[] = [];
  facilitatorSteadily: FacilitatorStep = "settle";
  isStatusReadable = true;
  /** what the Facilitator says of payments that it has taken, instead of the truth */
  statusLie: "failed" | "unknown" | undefined;
  reportedTimeSec = nowSec;
  facilitator!: HostileServer;

  private constructor(readonly dialect: Dialect) {}

  static async open(dialect: Dialect): Promise<Stage> {
    const stage = new Stage(dialect);
    stage.facilitator = await stage.servers.start((request) => stage.#facilitate(request));
    return stage;
  }

  /** Every signed authorization that left the client, by the party that could submit it. */
  get authorizations(): Authorization[] {
    return authorizationsIn(this.requests);
  }

  get requests(): Seen[] {
    return [...this.gates, this.facilitator].flatMap(({ seen }) => seen);
  }

  async gate(options: GateOptions = {}): Promise<HostileServer> {
    const steps = [...(options.steps ?? [])];
    let quotes = 0;
    const server: HostileServer = await this.servers.start((request): Answer => {
      const paid = this.#paymentIn(request);
      const quote = (error?: string) => this.#quote(server.url, request, { options, error, nth: ++quotes });
      if (!paid) return options.unpaid?.(request) ?? quote();
      const step = steps.shift() ?? options.steadily ?? "serve";
      if (step === "refuse") return quote("InvalidPaymentProof");
      const isSettling = typeof step === "string" && (step.startsWith("settle") || step === "serve");
      if (isSettling && paid.authorization) this.#move(paid.authorization);
      if (step === "settle_then_drop") return "drop";
      if (step === "settle_then_502") return { status: 502 };
      if (step === "settle_then_402") return quote("InvalidPaymentProof");
      if (step === "settle_then_granted") return withReason(quote("InvalidPaymentProof"), "payment_already_granted");
      if (step === "settle_then_pending") return withReason(quote(), "settlement_pending");
      if (step !== "serve") return step;
      return { status: 200, json: { data: "paid content" }, headers: receiptHeaders(paid.id) };
    });
    this.gates.push(server);
    return server;
  }

  /** A server that only watches. */
  async watcher(answer: Answer = { status: 200 }): Promise<HostileServer> {
    const server = await this.servers.start(() => answer);
    this.gates.push(server);
    return server;
  }

  close(): Promise<void> {
    return this.servers.close();
  }

  #move(authorization: Authorization): void {
    const id = `${authorization.from}:${authorization.nonce}`.toLowerCase();
    if (!this.moved.has(id)) this.moved.set(id, authorization);
  }

  #paymentIn(request: Seen): { id: string; authorization: Authorization | undefined } | undefined {
    const header = request.headers["x-payment"] ?? request.headers["payment-signature"];
    if (typeof header !== "string") return undefined;
    const [authorization] = authorizationsIn([{ ...request, body: "", url: "" }]);
    if (authorization) return { id: authorization.nonce, authorization };
    return { id: parsePaymentProof(header).transaction, authorization: undefined };
  }

  #quote(
    base: string,
    request: Seen,
    { options, error, nth }: { options: GateOptions; error: string | undefined; nth: number },
  ): Answer {
    const honest: Facts = {
      scheme: "exact",
      network: "base-sepolia",
      caip2: `eip155:${CHAIN_ID}`,
      token: TOKEN,
      amount: PRICE.toString(),
      payTo: addressOf("provider"),
      resource: `${base}${request.url}`,
      maxTimeoutSeconds: 60,
      memoExpirySec: nowSec() + 600,
      facilitator: this.facilitator.url,
      extra: DOMAIN,
      more: {},
    };
    const facts = options.lie?.(honest, nth) ?? honest;
    const written = (dialect: Dialect, of: Facts): Quote =>
      dialect === "x402-v2" ? quoteV2(of, error) : quoteV1(of, request, { dialect, error });
    const answer = written(this.dialect, facts);
    if (!options.beside) return answer;
    const other = written(this.dialect === "x402-v2" ? "x402-v1" : "x402-v2", options.beside(honest));
    return { status: 402, json: { ...other.json, ...answer.json }, headers: { ...other.headers, ...answer.headers } };
  }

  #facilitate(request: Seen): Answer {
    const { pathname, searchParams } = new URL(request.url, "http://x");
    const [, resource = "", id = ""] = pathname.split("/");
    if (request.method === "POST" && resource === "authorize") return this.#authorize(request);
    if (resource === "accounts") return { status: 200, json: this.#account(id, searchParams.get("token")) };
    if (resource === "payments") {
      if (!this.isStatusReadable) return { status: 502 };
      return { status: 200, json: { id, status: this.statusLie ?? (this.moved.size > 0 ? "settled" : "unknown") } };
    }
    return problem(404, "NotFound");
  }

  #account(address: string, token: string | null) {
    return {
      address,
      network: "base-sepolia",
      chainId: CHAIN_ID,
      token,
      tokenName: DOMAIN.name,
      tokenVersion: DOMAIN.version,
      balance: "1000000000",
      approval: "0",
      permitNonce: "0",
      chainTimeSec: this.reportedTimeSec(),
    };
  }

  #authorize(request: Seen): Answer {
    const payment = parseStrictJson(request.body)?.signedPayment as
      | { authorization: Authorization; memo: string; resource: string; token: Address; network: string }
      | undefined;
    if (!payment) return problem(400, "InvalidRequest");
    const { authorization: a, memo, resource, token, network } = payment;
    if (a.nonce !== paymentNonce(parseMemo(memo)?.ref ?? "", resource)) return problem(422, "InvalidRequest");
    const step = this.facilitatorSteps.shift() ?? this.facilitatorSteadily;
    if (step === "hang") return "hang";
    const id = paymentIdOf({ chainId: CHAIN_ID, token, payer: a.from as Address, nonce: a.nonce as Hex });
    if (step === "pending") return { status: 202, json: { status: "pending", id }, headers: { "retry-after": "1" } };
    if (typeof step === "object" && "redirect" in step) return { status: 307, headers: { location: step.redirect } };
    this.#move(a);
    if (step === "settle_then_drop") return "drop";
    if (step === "settle_then_502") return { status: 502 };
    if (step === "settle_then_refuse") return problem(422, "PaymentNotAllowed");
    const proof = signProof(
      {
        version: "1",
        network,
        token,
        payer: a.from as Address,
        payTo: a.to as Address,
        amount: BigInt(a.value),
        memo,
        resource,
        transaction: keccakText(id),
        blockNumber: 1,
        settledAt: nowSec(),
        expiresAt: nowSec() + 604_800,
        facilitator: addressOf("facilitator"),
        ...(typeof step === "object" ? step.forge : {}),
      },
      CHAIN_ID,
      keyOf("facilitator"),
    );
    return { status: 200, json: { proof: proofToWire(proof) } };
  }
}

interface Quote {
  readonly status: 402;
  readonly json: object;
  readonly headers?: Record<string, string>;
}

function quoteV1(
  facts: Facts,
  { method, headers }: Seen,
  { dialect, error }: { dialect: Dialect; error: string | undefined },
): Quote {
  const { scheme, network, token, amount, payTo, resource, maxTimeoutSeconds, extra, more } = facts;
  const standard = {
    scheme,
    network,
    payTo,
    resource,
    maxTimeoutSeconds,
    extra,
    description: "d",
    mimeType: "application/json",
    maxAmountRequired: amount,
    asset: token,
  };
  const problem = { error: error ?? "PaymentRequired", message: "Pay." };
  if (dialect === "x402-v1")
    return { status: 402, json: { x402Version: 1, accepts: [{ ...standard, ...more }], ...problem } };
  const key = headers["idempotency-key"];
  const ref = typeof key === "string" ? refOfIdempotencyKey(MEMO_KEY, method, resource, key) : randomRef();
  const quoted = {
    method,
    resource,
    amount: BigInt(amount),
    token: token as Address,
    payTo: payTo as Address,
    network,
  };
  const memo = issueMemo(MEMO_KEY, quoted, ref, facts.memoExpirySec);
  const native = { ...standard, token, amount, memo, hoodlayer: { facilitator: facts.facilitator }, ...more };
  return { status: 402, json: { version: "1", x402Version: 1, accepts: [native], ...problem } };
}

function quoteV2(facts: Facts, error: string | undefined): Quote {
  const { scheme, caip2, token, amount, payTo, resource, maxTimeoutSeconds, extra, more } = facts;
  const entry = { scheme, network: caip2, amount, asset: token, payTo, maxTimeoutSeconds, extra, ...more };
  const body = { x402Version: 2, error: error ?? "", resource: { url: resource }, accepts: [entry] };
  return { status: 402, json: {}, headers: { "PAYMENT-REQUIRED": encodeJsonHeader(body) } };
}

/** The reason in the body, as this project's gates say it, and in the receipt, as stock servers do. */
function withReason(quote: Answer, reason: string): Answer {
  if (typeof quote === "string") return quote;
  const settlement = encodeJsonHeader({
    success: false,
    errorReason: reason,
    transaction: "",
    network: `eip155:${CHAIN_ID}`,
  });
  return {
    ...quote,
    json: { ...(quote.json as object), reason },
    headers: { ...quote.headers, "X-PAYMENT-RESPONSE": settlement, "PAYMENT-RESPONSE": settlement },
  };
}

function problem(status: number, code: string): Answer {
  const json = { type: `urn:turnpike:error:${code}`, title: code, status, code, message: code, retryable: false };
  return { status, json };
}

function receiptHeaders(id: string): Record<string, string> {
  const settlement = {
    success: true,
    transaction: keccakText(id),
    network: `eip155:${CHAIN_ID}`,
    payer: addressOf("payer"),
  };
  const value = encodeJsonHeader(settlement);
  return { "X-PAYMENT-RESPONSE": value, "PAYMENT-RESPONSE": value };
}
