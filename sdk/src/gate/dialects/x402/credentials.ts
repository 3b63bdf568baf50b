/**
 * Reads what a request presents in the payment headers of x402, both versions, and of native proofs: which form each header
 * holds, the context that it is judged in, what it pays, by which option, and how its money moves.
 */
import { isDeepStrictEqual } from "node:util";
import type { X402RequestWire } from "../../../facilitator/x402";
import {
  caip2Of,
  checksum,
  decodeJsonHeader,
  exactPayloadSchema,
  findNetwork,
  HEADER,
  type Hex,
  isMemoGenuine,
  type JsonObject,
  parseMemo,
  paymentIdentifierOf,
  shortResourceOf,
  signatureWithV,
  transferTypedData,
  typedDataDigest,
  x402V1PayloadSchema,
} from "../../../protocol";
import { isObject } from "../../../protocol/arguments";
import { MAX_TIMEOUT_SEC, methodOf, soldInVersion1 } from "../../core/offers";
import type { Candidate, PaymentAnswers, PaymentCase, PaymentVerdict } from "../../core/payment-case";
import type { GateRequest } from "../../core/request";
import { requireToken } from "../../core/terms";
import { methodOfPayload, parsed, readable, signedByToken } from "../../methods";
import { recoverSigner } from "../../methods/method";
import { checkPresented, verdictOfFault } from "../../schemes/transfer";
import { ambiguous, contextsOn, isRawJson, singleHeader } from "../dialect";

type PaymentHeader = typeof HEADER.payment | typeof HEADER.paymentSignatureV2;

/** header: where it was sent */
export interface StandardCredential {
  readonly kind: "x402-v1" | "x402-v2";
  readonly payload: JsonObject;
  readonly header: PaymentHeader;
}

export type Reading =
  | StandardCredential
  | { readonly kind: "proof"; readonly payload: JsonObject }
  /** why: completes "<header> holds no payment: "; isNothing: nor anything that could be meant as one */
  | { readonly kind: "malformed"; readonly header: PaymentHeader; readonly why: string; readonly isNothing?: boolean };

const PAYMENT_V1 = HEADER.payment.toLowerCase();

const PAYMENT_V2 = HEADER.paymentSignatureV2.toLowerCase();

/**
 * Reads a payment of either header. Both may hold one payment: the same fields, or one signed authorization in the forms of both
 * versions. @throws AmbiguousCredentials
 */
export function readPaymentHeaders(request: GateRequest): Reading | undefined {
  const v1 = singleHeader(request, PAYMENT_V1);
  const v2 = singleHeader(request, PAYMENT_V2);
  if (v1 === undefined) return v2 === undefined ? misplacedIn(request) : readPayment(v2, HEADER.paymentSignatureV2);
  const first = readPayment(v1, HEADER.payment);
  if (v2 === undefined || v2 === v1) return first;
  const one = sameOf(first, readPayment(v2, HEADER.paymentSignatureV2));
  if (!one) throw ambiguous("X-PAYMENT and PAYMENT-SIGNATURE hold two payments: send one");
  return one;
}

/** @returns the one to judge: of two versions the second, which names the quote. undefined for two payments */
function sameOf(first: Reading, second: Reading): Reading | undefined {
  if (isNothing(second)) return first;
  if (isNothing(first)) return second;
  if (first.kind === "malformed" || second.kind === "malformed") return undefined;
  if (isDeepStrictEqual(first.payload, second.payload)) return first;
  const kinds = [first.kind, second.kind];
  if (!kinds.includes("x402-v1") || !kinds.includes("x402-v2")) return undefined;
  const signed = signedText(first.payload);
  if (signed === undefined || signed !== signedText(second.payload)) return undefined;
  return first.kind === "x402-v2" ? first : second;
}

const isNothing = (credential: Reading): boolean => credential.kind === "malformed" && credential.isNothing === true;

/** One text for every way to write one authorization and its signature. */
function signedText({ payload }: JsonObject): string | undefined {
  const { data } = exactPayloadSchema.safeParse(payload);
  if (!data) return undefined;
  const { from, to, value, validAfter, validBefore, nonce } = data.authorization;
  return [from, to, value, validAfter, validBefore, nonce, signatureWithV(data.signature).toLowerCase()].join();
}

function readPayment(value: string, header: PaymentHeader): Reading {
  const payload = decodeJsonHeader(value);
  if (!payload) return isRawJson(value) ? { kind: "malformed", header, why: RAW } : nothing(header, value);
  const isNative = "version" in payload;
  const isStandard = "x402Version" in payload;
  if (isNative && isStandard) throw ambiguous("the payment has both `version` and `x402Version`");
  if (payload.x402Version === 1) return { kind: "x402-v1", payload, header };
  if (payload.x402Version === 2) return { kind: "x402-v2", payload, header };
  if (isNative && header === HEADER.payment) return { kind: "proof", payload };
  const why = isNative ? `it is a payment proof, which is sent in ${HEADER.payment}.` : whyVersion(payload.x402Version);
  return { kind: "malformed", header, why };
}

const RAW = "it is JSON as it is, and has to be base64 of it.";

function nothing(header: PaymentHeader, value: string): Reading {
  const why = value === "" ? "it is empty." : "it is not base64 of one JSON object, a proof or an x402 payload.";
  return { kind: "malformed", header, why, isNothing: true };
}

function whyVersion(version: unknown): string {
  const known = `it is 1 in ${HEADER.payment} and 2 in ${HEADER.paymentSignatureV2}.`;
  if (version === undefined) return `its x402Version is missing; ${known}`;
  if (typeof version === "number") return `x402Version ${version} is not read; ${known}`;
  return `its x402Version is ${typeof version === "string" ? "text" : "no number"}; as a number, ${known}`;
}

/** Where clients send payloads that no gate judges. */
export const MISPLACED_HEADERS = ["Authorization", "X-PAYMENT-SIGNATURE"];

/** Names the right header for a payload. Whatever else these headers hold is the application's own. */
function misplacedIn(request: GateRequest): Reading | undefined {
  for (const name of MISPLACED_HEADERS) {
    const value = request.header(name.toLowerCase());
    const payload = value && decodeJsonHeader(value.slice(value.lastIndexOf(" ") + 1));
    if (!payload || !("x402Version" in payload) || !isObject(payload.payload)) continue;
    const header = payload.x402Version === 1 ? HEADER.payment : HEADER.paymentSignatureV2;
    return {
      kind: "malformed",
      header,
      isNothing: true,
      why: `the payload is in ${name}, where none is read; send it in ${header}.`,
    };
  }
  return undefined;
}

/**
 * A version 1 payload names no token: its signature shows which of several it moves. A contract wallet's cannot be read
 * here, so that it is judged in the first that sells at its amount and payee, and its Facilitator verifies the signature.
 * @throws Unavailable where a price that it may pay cannot be read now
 */
export async function entryOfV1(payload: JsonObject, at: PaymentCase): Promise<PaymentCase> {
  const onNetwork = contextsOn(payload.network, at);
  const fallback = at.in(onNetwork[0] ?? at.context);
  const parsed = onNetwork.length > 1 ? x402V1PayloadSchema.safeParse(payload) : undefined;
  if (!parsed?.success) return fallback;
  const { authorization, signature } = parsed.data.payload;
  const now = await at.route.offers.now(at.request);
  if (now.outage) throw now.outage;
  const fitting = soldInVersion1(now.offers, at.route.presentation).flatMap((offer) => {
    const context = onNetwork.find((each) => each === offer.context);
    const isPaid = offer.payTo === authorization.to && offer.amount === authorization.value;
    return context && isPaid ? [{ context, token: offer.token }] : [];
  });
  const signed = fitting.find(({ context, token: { address: token, name, version } }) => {
    const { chainId } = context.settings.network;
    const digest = typedDataDigest(transferTypedData({ chainId, token, name, version }, authorization));
    return recoverSigner(digest, signatureWithV(signature)) === authorization.from;
  });
  if (signed) return at.in(signed.context);
  // What it pays may be an entry that is left out now: that is no reason to refuse it.
  for (const each of onNetwork) {
    const outage = now.outages.get(each);
    if (outage) throw outage;
  }
  const [context] = fitting;
  return context ? at.in(context.context) : fallback;
}

/** The payload as it is sent on: the Facilitator may hand its signature to the token unread. */
function payloadSigned(payload: JsonObject, signature: Hex): JsonObject {
  const signed = payload.payload as JsonObject;
  return signed.signature === signature ? payload : { ...payload, payload: { ...signed, signature } };
}

/** Checks a version 1 payload. It echoes nothing, so it must pay one of the current options exactly. */
export async function checkV1(
  credential: StandardCredential,
  dialect: PaymentAnswers,
  at: PaymentCase,
): Promise<Candidate | PaymentVerdict> {
  const { network, payload: signed } = parsed(x402V1PayloadSchema, credential);
  const { settings } = at.context;
  if (findNetwork(network, settings.extraNetworks)?.chainId !== settings.network.chainId)
    return verdictOfFault("network");
  const { authorization } = signed;
  const now = await at.route.offers.now(at.request);
  if (now.outage) throw now.outage;
  const offers = soldInVersion1(now.offers, at.route.presentation).filter(({ context }) => context === at.context);
  const offer = offers.find(({ payTo, amount }) => payTo === authorization.to && amount === authorization.value);
  if (!offer) {
    // What it pays may be left out of the options now: that is no reason to refuse it.
    const outage = now.outages.get(at.context);
    if (outage) throw outage;
    return verdictOfFault("terms");
  }
  const { token, payTo, amount } = offer;
  const facts = readable(signedByToken(signed, { chainId: settings.network.chainId, token }));
  const paymentPayload = payloadSigned(credential.payload, facts.signature) as unknown as Extract<
    X402RequestWire,
    { paymentRequirements: { maxAmountRequired: string } }
  >["paymentPayload"];
  const paymentRequirements = {
    scheme: "exact" as const,
    network,
    maxAmountRequired: amount.toString(),
    resource: at.resource,
    description: at.route.presentation.description,
    mimeType: at.route.presentation.mimeType,
    payTo,
    maxTimeoutSeconds: MAX_TIMEOUT_SEC,
    asset: token.address,
    extra: { name: token.name, version: token.version },
  };
  const settlement = { paymentPayload, paymentRequirements };
  const answers = { dialect, dialectName: "x402" } as const;
  return checkPresented({ ...facts, ...answers, scheme: "exact", method: methodOf(offer), token, settlement }, at);
}

/**
 * Checks a version 2 payload. It echoes the option, whose memo proves the quote: quoted terms hold until they expire.
 */
export async function checkV2(
  credential: StandardCredential,
  dialect: PaymentAnswers,
  at: PaymentCase,
): Promise<Candidate | PaymentVerdict> {
  const method = methodOfPayload(credential.payload);
  const option = method.read(credential);
  if (typeof option === "string") return verdictOfFault(option);
  const { accepted, resource, payTo, max, scheme } = option;
  const { settings, terms, time } = at.context;
  const { amount, extra } = accepted;
  if (accepted.network !== caip2Of(settings.network.chainId)) return verdictOfFault("network");
  if (resource && resource.url !== at.resource && resource.url !== shortResourceOf(at.resource)) {
    return verdictOfFault("resource");
  }
  if (payTo !== accepted.payTo || max !== amount) return verdictOfFault("terms");
  const memo = parseMemo(extra?.memo);
  const transfer = method.bound(scheme);
  const facts = {
    method: at.quotedMethod,
    resource: at.resource,
    amount,
    token: accepted.asset,
    payTo,
    network: settings.network.name,
    ...(at.bodyHash !== undefined && { bodyHash: at.bodyHash }),
    ...(transfer && { transfer }),
  };
  if (!memo || !isMemoGenuine(memo, facts, settings.memoKeys)) return verdictOfFault("memo");
  const token = requireToken(terms, checksum(accepted.asset));
  const signed = readable(option.signed({ chainId: settings.network.chainId, token }));
  const payload = payloadSigned(credential.payload, signed.signature);
  const settlement = { paymentPayload: payload, paymentRequirements: payload.accepted } as unknown as X402RequestWire;
  const identifier = paymentIdentifierOf(payload);
  if (identifier.kind === "malformed") return verdictOfFault("payment_identifier");
  const named = identifier.kind === "given" ? { identifier: identifier.id } : {};
  const isLate = time.latestSec() >= memo.expiresAtSec;
  const isQuotedAfter = extra?.paymentFlow !== "upfront";
  const found = { ...signed, scheme, method, token, settlement, isLate, isQuotedAfter, ...named };
  return checkPresented({ ...found, dialect, dialectName: "x402" }, at);
}
