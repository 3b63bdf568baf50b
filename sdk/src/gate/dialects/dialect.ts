/** How a request and its answers speak of payment: what a dialect and its credentials have. */
import {
  type Address,
  findNetwork,
  HEADER,
  type JsonObject,
  MAX_CREDENTIAL_BYTES,
  sameAddress,
  TurnpikeError,
} from "../../protocol";
import { parseStrictJson } from "../../protocol/headers";
import type { GateContext } from "../core/context";
import type { Offer, QuoteRequest, Quotes } from "../core/offers";
import type { Candidate, PaymentAnswers, PaymentCase, PaymentVerdict } from "../core/payment-case";
import type { GateRequest } from "../core/request";

/** A payment that a request presents. */
export interface PaymentCredential {
  readonly dialect: Dialect;
  /** where it was sent, for errors */
  readonly header: string;
  /** it holds nothing that could be meant as a payment: any other credential goes before it */
  readonly isNothing?: boolean | undefined;
  /**
   * Returns the case in the context of the entry that it names, of a route that sells on several networks or in several
   * tokens. @throws Unavailable
   */
  entry(at: PaymentCase): PaymentCase | Promise<PaymentCase>;
  /**
   * Checks what it presents. It claims nothing and moves nothing.
   * @returns what to claim, or why nothing is. @throws InvalidPaymentProof, Unavailable
   */
  check(at: PaymentCase): Candidate | PaymentVerdict | Promise<Candidate | PaymentVerdict>;
}

export interface Dialect extends Pick<PaymentAnswers, "errorFor"> {
  /** Reads the credential that a request presents. @throws AmbiguousCredentials for two of them */
  read(request: GateRequest): PaymentCredential | undefined;
  /** Returns the headers that it adds to a 402. Absent: the dialect writes the body, and its header with it. */
  quote?(asked: QuoteRequest): Readonly<Record<string, string>>;
  /** Returns the members of RFC 9457 that it adds to a 402's body, for a client that speaks it. */
  problem?(asked: QuoteRequest): JsonObject | undefined;
  /** Returns by which method and intent of MPP its clients pay an offer; undefined where they cannot. */
  charge?(offer: Offer): { readonly method: string; readonly intent: string } | undefined;
}

/** The dialect in which bodies of 402s are written. */
export interface BodyDialect extends Dialect {
  createQuotes(): Quotes;
}

/** @param name in lower case. @throws AmbiguousCredentials (400) for a repeated, joined or oversized header */
export function singleHeader(request: GateRequest, name: string): string | undefined {
  const value = request.header(name);
  if (value === undefined) return undefined;
  if (value.length > MAX_CREDENTIAL_BYTES) throw ambiguous(`${name} is larger than ${MAX_CREDENTIAL_BYTES} bytes`);
  // No credential contains a comma: one that is there joins two headers, unless it is JSON that was not encoded.
  if (value.includes(",") && !isRawJson(value)) throw ambiguous(`${name} was sent more than once`);
  return value;
}

export const isRawJson = (value: string): boolean => parseStrictJson(value) !== undefined;

export const ambiguous = (what: string): TurnpikeError =>
  new TurnpikeError("AmbiguousCredentials", `The credentials have two readings: ${what}.`);

export interface Credentials {
  readonly subscription: string | undefined;
  /** an answer to a `sign-in-with-x` challenge */
  readonly signIn?: string | undefined;
  readonly payment: PaymentCredential | undefined;
}

const SUBSCRIPTION = HEADER.subscription.toLowerCase();

const SIGN_IN = HEADER.signIn.toLowerCase();

const NONE: Credentials = { subscription: undefined, payment: undefined };

/** @throws AmbiguousCredentials (400) for a repeated, joined or oversized header, or two payments at once */
export function readCredentials(request: GateRequest, dialects: readonly Dialect[]): Credentials {
  const subscription = singleHeader(request, SUBSCRIPTION);
  const payment = paymentIn(request, dialects);
  const signIn = singleHeader(request, SIGN_IN);
  if (subscription === undefined && payment === undefined && signIn === undefined) return NONE;
  return { subscription, signIn, payment };
}

function paymentIn(request: GateRequest, dialects: readonly Dialect[]): PaymentCredential | undefined {
  let found: PaymentCredential | undefined;
  for (const dialect of dialects) {
    const read = dialect.read(request);
    if (!read || (read.isNothing && found)) continue;
    if (found && !found.isNothing) throw ambiguous(`${found.header} and ${read.header} hold two payments: send one`);
    found = read;
  }
  return found;
}

/**
 * Returns the case in the context of the entry that a payment names. One that names none of them is judged in the first
 * of its network, or of the route, and refused there: only the Facilitator and chain of its own can make it count.
 * @param named its network, asset and payTo, as they were sent
 * @param at in the context of the route's first entry
 */
export function entryNamed(named: unknown, at: PaymentCase): PaymentCase {
  const { network, asset, payTo } = (named ?? {}) as JsonObject;
  const onNetwork = contextsOn(network, at);
  const paid = onNetwork.find(
    ({ settings }) => isAddress(asset, settings.token?.address) && isAddress(payTo, settings.payTo),
  );
  return at.in(paid ?? onNetwork[0] ?? at.context);
}

const isAddress = (value: unknown, expected: Address | undefined): boolean =>
  typeof value === "string" && expected !== undefined && sameAddress(value, expected);

/** Returns the contexts of a route on a network, as it was sent. */
export function contextsOn(network: unknown, { route, context }: PaymentCase): readonly GateContext[] {
  const chainId =
    typeof network === "string" ? findNetwork(network, context.settings.extraNetworks)?.chainId : undefined;
  return route.contexts.filter(({ settings }) => settings.network.chainId === chainId);
}
