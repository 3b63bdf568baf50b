/**
 * A provider and a Facilitator that keep the wire's rules, with a switch to break each of them. "The chain" is a set of
 * spent nonces: what moved money, and how often, is counted there.
 */

import { type Agent, type AgentEvent, type AgentOptions, createAgent, walletFromKey } from "turnpike/agent";
import {
  type Address,
  addressOfKey,
  checksum,
  type Hex,
  isMemoGenuine,
  isProofSignedBy,
  issueMemo,
  keccakText,
  type PaymentProof,
  parseMemo,
  parsePaymentProof,
  paymentIdOf,
  paymentNonce,
  proofToWire,
  randomRef,
  recoverSigner,
  refOfIdempotencyKey,
  signedPaymentSchema,
  signProof,
  transferTypedData,
  typedDataDigest,
  type UnsignedPaymentProof,
} from "turnpike/protocol";
import { type Answer, closeAll, type Seen, type StandIn, serve } from "./servers";

/** Keys of tests, derived from their role: worthless anywhere else. */
export const testKey = (role: string): Hex => keccakText(`turnpike test key: ${role}`);
export const addressOf = (role: string): Address => addressOfKey(testKey(role));

export const CHAIN_ID = 31_337;
export const NETWORK = `local-${CHAIN_ID}`;
export const TOKEN = checksum(`0x${"70".repeat(20)}`);
export const TURNPIKE = checksum(`0x${"71".repeat(20)}`);
export const TOKEN_DOMAIN = { name: "Test USD", version: "1" };
export const NOW_SEC = 1_800_000_000;

const MEMO_KEY = { id: "k1", secret: new Uint8Array(32).fill(7) };

export interface Transfer {
  readonly id: Hex;
  readonly from: Address;
  readonly to: Address;
  readonly value: bigint;
}

export class Chain {
  nowSec = NOW_SEC;
  balance = 1_000_000_000n;
  readonly transfers: Transfer[] = [];
  #spent = new Map<Hex, Transfer>();

  find(id: Hex): Transfer | undefined {
    return this.#spent.get(id);
  }

  /** As the token does: a spent nonce moves nothing. */
  move(transfer: Transfer): boolean {
    if (this.#spent.has(transfer.id)) return false;
    this.#spent.set(transfer.id, transfer);
    this.transfers.push(transfer);
    return true;
  }
}

/** What the Facilitator does with the next posts to /authorize; when it runs out, it settles. */
export type AuthorizeStep =
  | "settle"
  | "pending"
  | "settle_then_drop"
  | "drop"
  | "502"
  | { forge: Partial<UnsignedPaymentProof> }
  /** settles, and answers with what this makes of the proof */
  | { spoil: (proof: PaymentProof) => PaymentProof }
  | { refuse: string }
  /** answers 429, with so many seconds in Retry-After */
  | { limit: number }
  /** settles, and answers with a refusal */
  | { settleThenRefuse: string };

export interface FacilitatorStandIn extends StandIn {
  readonly steps: AuthorizeStep[];
  /** every authorization that was posted, by signature */
  readonly signatures: Set<string>;
  statusReadable: boolean;
  domain: { name: string; version: string };
  /** whose proofs count, as `GET /supported` says; empty: there is no such route */
  readonly announced: Address[];
  /** says that it knows no payment */
  hidesPayments?: boolean;
  /** of the proofs; default: the chain's time */
  settledAtSec?: number;
}

/** @param role names the key that signs its proofs */
export async function startFacilitator(chain: Chain, role = "facilitator"): Promise<FacilitatorStandIn> {
  const steps: AuthorizeStep[] = [];
  const signatures = new Set<string>();
  const announced: Address[] = [];
  const key = testKey(role);
  const state = { statusReadable: true, domain: { ...TOKEN_DOMAIN } };

  const problem = (status: number, code: string): Answer => ({
    status,
    json: { type: `urn:turnpike:error:${code}`, title: code, status, code, message: code, retryable: false },
  });

  function authorize(request: Seen): Answer {
    const { signedPayment } = JSON.parse(request.body) as { signedPayment: unknown };
    const payment = signedPaymentSchema.parse(signedPayment);
    signatures.add(payment.signature);
    const step = steps.shift() ?? "settle";
    if (typeof step === "object" && "refuse" in step) return problem(422, step.refuse);
    if (typeof step === "object" && "limit" in step) {
      return { ...problem(429, "RateLimited"), headers: { "retry-after": String(step.limit) } };
    }
    if (step === "drop") return { status: 0, drop: true };
    if (step === "502") return { status: 502, json: "bad gateway" };
    const { authorization: a, memo, resource, token } = payment;
    const digest = typedDataDigest(transferTypedData({ chainId: CHAIN_ID, token, ...TOKEN_DOMAIN }, a));
    if (recoverSigner(digest, payment.signature) !== a.from) return problem(422, "InvalidSignature");
    if (a.nonce !== paymentNonce(parseMemo(memo)?.ref ?? "", resource)) return problem(422, "InvalidRequest");
    const id = paymentIdOf({ chainId: CHAIN_ID, token, payer: a.from, nonce: a.nonce });
    const standing = chain.find(id);
    if (standing && (standing.value !== a.value || standing.to !== a.to)) return problem(409, "PayloadConflict");
    if (step === "pending") return { status: 202, json: { status: "pending", id }, headers: { "retry-after": "1" } };
    if (!standing) {
      if (Number(a.validBefore) <= chain.nowSec) return problem(422, "PaymentExpired");
      if (chain.balance < a.value) return problem(422, "InsufficientFunds");
      chain.move({ id, from: a.from, to: a.to, value: a.value });
    }
    if (step === "settle_then_drop") return { status: 0, drop: true };
    if (typeof step === "object" && "settleThenRefuse" in step) return problem(422, step.settleThenRefuse);
    const proof = signProof(
      {
        version: "1",
        network: NETWORK,
        token,
        payer: a.from,
        payTo: a.to,
        amount: a.value,
        memo,
        resource,
        transaction: keccakText(id),
        blockNumber: 1,
        settledAt: server.settledAtSec ?? chain.nowSec,
        expiresAt: (server.settledAtSec ?? chain.nowSec) + 604_800,
        facilitator: addressOfKey(key),
        ...(typeof step === "object" && "forge" in step ? step.forge : {}),
      },
      CHAIN_ID,
      key,
    );
    const returned = typeof step === "object" && "spoil" in step ? step.spoil(proof) : proof;
    return { status: 200, json: { proof: proofToWire(returned) } };
  }

  const server: StandIn & Partial<FacilitatorStandIn> = await serve((request) => {
    const { pathname, searchParams } = new URL(request.url, "http://x");
    if (request.method === "POST" && pathname === "/authorize") return authorize(request);
    if (pathname === "/supported" && announced.length > 0) {
      const json = {
        kinds: [],
        extensions: [],
        signers: {},
        network: NETWORK,
        chainId: CHAIN_ID,
        turnpike: TURNPIKE,
        batchSettler: TURNPIKE,
        proofSigners: announced,
        relayers: [],
        tokens: [],
      };
      return { status: 200, json };
    }
    if (pathname.startsWith("/accounts/")) {
      return {
        status: 200,
        json: {
          address: pathname.slice("/accounts/".length),
          network: NETWORK,
          chainId: CHAIN_ID,
          token: searchParams.get("token"),
          tokenName: state.domain.name,
          tokenVersion: state.domain.version,
          balance: chain.balance.toString(),
          approval: "0",
          permitNonce: "0",
          chainTimeSec: chain.nowSec,
        },
      };
    }
    if (pathname.startsWith("/payments/")) {
      if (!state.statusReadable) return { status: 502, json: "bad gateway" };
      const id = pathname.slice("/payments/".length) as Hex;
      return { status: 200, json: { id, status: chain.find(id) && !server.hidesPayments ? "settled" : "unknown" } };
    }
    return problem(404, "NotFound");
  });
  return Object.assign(
    server,
    { steps, signatures, announced },
    {
      set statusReadable(value: boolean) {
        state.statusReadable = value;
      },
      get statusReadable() {
        return state.statusReadable;
      },
      get domain() {
        return state.domain;
      },
      set domain(value) {
        state.domain = value;
      },
    },
  );
}

/** What the provider answers to the next presentations; when it runs out, it judges and serves. */
export type PresentStep =
  | "judge"
  | "402"
  | "reversed"
  | "signer_retired"
  | "payment_already_granted"
  | "409"
  | "502"
  | "500"
  | "404"
  | "drop"
  | "serve_then_drop"
  | "refunded"
  | { readonly failedAndRefunded: number }
  | { redirect: string };

export interface ProviderOptions {
  readonly amount?: bigint;
  readonly payTo?: Address;
  /** changes the entry before it is sent: where a lying server lies */
  readonly tamper?: (entry: Record<string, unknown>, request: Seen) => Record<string, unknown>;
  readonly body?: (body: Record<string, unknown>, request: Seen) => unknown;
  /** whose proofs count; default: those of the first Facilitator */
  readonly signers?: Address[];
}

export interface ProviderStandIn extends StandIn {
  readonly steps: PresentStep[];
  /** proofs that were granted a response */
  readonly granted: Hex[];
  readonly quotes: () => number;
  /** serves a proof that was used again */
  replays?: boolean;
}

export async function startProvider(
  chain: Chain,
  facilitatorUrl: string,
  options: ProviderOptions = {},
): Promise<ProviderStandIn> {
  const steps: PresentStep[] = [];
  const granted: Hex[] = [];
  const used = new Set<Hex>();
  let quotes = 0;
  let base = "";
  const amount = options.amount ?? 500_000n;
  const payTo = options.payTo ?? addressOf("provider");
  const signers = options.signers ?? [addressOf("facilitator")];

  const factsOf = (request: Seen) => ({
    method: request.method,
    resource: `${base}${request.url}`,
    amount,
    token: TOKEN,
    payTo,
    network: NETWORK,
  });

  function quote(request: Seen, error = "PaymentRequired", reason?: string): Answer {
    quotes++;
    const facts = factsOf(request);
    const key = request.headers["idempotency-key"];
    const ref =
      typeof key === "string" ? refOfIdempotencyKey(MEMO_KEY, facts.method, facts.resource, key) : randomRef();
    const memo = issueMemo(MEMO_KEY, facts, ref, chain.nowSec + 600);
    const entry: Record<string, unknown> = {
      scheme: "exact",
      network: NETWORK,
      token: TOKEN,
      amount: amount.toString(),
      payTo,
      memo,
      hoodlayer: { facilitator: facilitatorUrl },
      maxAmountRequired: amount.toString(),
      asset: TOKEN,
      resource: facts.resource,
      maxTimeoutSeconds: 600,
      extra: TOKEN_DOMAIN,
    };
    const body: Record<string, unknown> = {
      version: "1",
      x402Version: 1,
      accepts: [options.tamper?.(entry, request) ?? entry],
      error,
      ...(reason ? { reason } : {}),
      message: "Pay.",
    };
    return { status: 402, json: options.body?.(body, request) ?? body };
  }

  function judge(request: Seen, proof: PaymentProof): Answer {
    const memo = parseMemo(proof.memo);
    const facts = factsOf(request);
    const id = paymentIdOf({
      chainId: CHAIN_ID,
      token: proof.token,
      payer: proof.payer,
      nonce: paymentNonce(memo?.ref ?? "", proof.resource),
    });
    const isOfQuote =
      memo !== undefined &&
      isMemoGenuine(memo, facts, [MEMO_KEY]) &&
      proof.resource === facts.resource &&
      proof.amount === amount;
    const refused = (reason: string): Answer => quote(request, "InvalidPaymentProof", reason);
    if (!isOfQuote) return refused("mismatch");
    if (chain.nowSec >= proof.expiresAt) return refused("expired");
    if (proof.settledAt > memo.expiresAtSec) return refused("memo_expired");
    if (!signers.includes(proof.facilitator)) return refused("facilitator");
    if (!isProofSignedBy(proof, CHAIN_ID, proof.facilitator)) return refused("signature");
    if (proof.transaction !== keccakText(id)) return refused("not_settled");
    if (used.has(id) && !server.replays) return quote(request, "PaymentAlreadyUsed", "already_used");
    used.add(id);
    granted.push(id);
    return { status: 200, json: { data: "paid content", echo: request.body } };
  }

  const server: StandIn & Partial<ProviderStandIn> = await serve((request) => {
    const header = request.headers["x-payment"];
    if (typeof header !== "string") return quote(request);
    const proof = parsePaymentProof(header);
    const step = steps.shift() ?? "judge";
    if (typeof step === "object" && "failedAndRefunded" in step)
      return { status: step.failedAndRefunded, json: { error: "x" }, headers: { "payment-refund": "e30=" } };
    if (typeof step === "object") return { status: 302, headers: { location: step.redirect } };
    switch (step) {
      case "402":
        return quote(request, "InvalidPaymentProof", "not_yet");
      case "refunded":
        return quote(request, "PaymentAlreadyUsed", "refunded");
      case "reversed":
      case "signer_retired":
      case "payment_already_granted":
        return quote(request, "InvalidPaymentProof", step);
      case "409":
        return { status: 409, json: { error: "ProofInFlight" }, headers: { "retry-after": "1" } };
      case "502":
      case "500":
      case "404":
        return { status: Number(step), json: { error: "x" } };
      case "drop":
        return { status: 0, drop: true };
      case "serve_then_drop":
        judge(request, proof);
        return { status: 0, drop: true };
      default:
        return judge(request, proof);
    }
  });
  base = server.url;
  return Object.assign(server, { steps, granted, quotes: () => quotes });
}

/** A chain, its Facilitator and a provider that sells for 0.50, in the state in which each test starts. */
export interface Market {
  chain: Chain;
  facilitator: FacilitatorStandIn;
  provider: ProviderStandIn;
  /** whose proofs the provider takes */
  signers: Address[];
}

/** Opens a fresh market before each test of the suite that calls this, and closes every server after it. */
export function marketBeforeEach(): Market {
  const market = {} as Market;
  beforeEach(async () => {
    market.chain = new Chain();
    market.facilitator = await startFacilitator(market.chain);
    market.signers = [addressOf("facilitator")];
    market.provider = await startProvider(market.chain, market.facilitator.url, { signers: market.signers });
  });
  afterEach(closeAll);
  return market;
}

export interface AgentUnderTest {
  readonly agent: Agent;
  readonly events: AgentEvent[];
  /** typed data that the wallet was asked to sign, by primary type */
  readonly signed: string[];
}

/** An agent with generous limits whose waiting takes no time. */
export function agentFor(
  facilitatorUrl: string,
  options: Partial<AgentOptions> & { role?: string } = {},
): AgentUnderTest {
  const { role = "payer", ...rest } = options;
  const events: AgentEvent[] = [];
  const signed: string[] = [];
  const wallet = walletFromKey(testKey(role));
  const agent = createAgent({
    wallet: {
      getAddress: wallet.getAddress,
      signTypedData: (domain, types, message) => {
        signed.push(Object.keys(types)[0] ?? "");
        return wallet.signTypedData(domain, types, message);
      },
    },
    policy: { perPayment: 1_000_000n, perDay: 10_000_000n, tokens: [TOKEN] },
    facilitators: [facilitatorUrl],
    deployments: [{ chainId: CHAIN_ID, turnpike: TURNPIKE }],
    sleep: async () => {},
    onEvent: (event) => events.push(event),
    ...rest,
  });
  return { agent, events, signed };
}

export const transfersSigned = ({ signed }: AgentUnderTest): number =>
  signed.filter((type) => type === "TransferWithAuthorization").length;
