/**
 * Reads standard x402 payloads, versions 1 and 2: what they pay, by which option, and how its money moves. What was read
 * is judged in `judge-standard`.
 */
import type * as z from "zod";
import {
  payloadPermit2Schema,
  payloadUptoSchema,
  payloadV2Schema,
  type requirementsUptoSchema,
  type requirementsV2Schema,
  type X402RequestWire,
} from "../../facilitator/payments";
import {
  type Address,
  caip2Of,
  checksum,
  findNetwork,
  type Hex,
  InvalidPaymentProof,
  isEip3009,
  isMemoGenuine,
  isPermit2,
  type JsonObject,
  keySignature,
  type Permit2Authorization,
  type Permit2Method,
  parseMemo,
  paymentIdentifierOf,
  paymentIdOf,
  permit2AuthorizationOf,
  permit2NonceOf,
  permit2PaymentIdOf,
  permit2TypedData,
  proxyOf,
  shortResourceOf,
  transferTypedData,
  typedDataDigest,
  Unavailable,
  x402V1PayloadSchema,
} from "../../protocol";
import { isObject } from "../../protocol/strict-json";
import type { PaymentCase, PaymentVerdict } from "./claim-payment";
import type { StandardCredential } from "./credentials";
import {
  type Authorization,
  type Fault,
  judgePresented,
  type PresentedPayment,
  verdictOfFault,
} from "./judge-standard";
import { MAX_TIMEOUT_SEC, soldByEip3009 } from "./offers";
import { recoverSigner } from "./recover-signer";
import { quotedMethod } from "./request";
import type { TokenTerms } from "./terms";

/** @throws InvalidPaymentProof that names the first wrong field */
function parsed<T>(schema: z.ZodType<T>, { payload, header }: StandardCredential): T {
  const read = schema.safeParse(payload);
  if (read.success) return read.data;
  const field = read.error.issues[0]?.path.join(".") || "payload";
  throw new InvalidPaymentProof(`${header} holds a malformed x402 payload: field ${field} is missing or wrong`, {
    reason: "malformed",
  });
}

type SignedFacts = Omit<PresentedPayment, "token" | "settlement">;

/** What was signed, and its signature as tokens read it. */
function signedFacts(facts: SignedFacts): SignedFacts {
  const { authorization, digest } = facts;
  const isOwn = (signature: Hex): boolean => recoverSigner(digest, signature) === authorization.from;
  return { ...facts, signature: keySignature(facts.signature, isOwn) };
}

function eip3009Facts(
  { authorization, signature }: { readonly authorization: Authorization; readonly signature: Hex },
  { address: token, name, version }: TokenTerms,
  { context }: PaymentCase,
): SignedFacts {
  const { chainId } = context.settings.network;
  const { from: payer, nonce } = authorization;
  return signedFacts({
    authorization,
    signature,
    paymentId: paymentIdOf({ chainId, token, payer, nonce }),
    digest: typedDataDigest(transferTypedData({ chainId, token, name, version }, authorization)),
  });
}

function permit2Facts(signed: Permit2Authorization, signature: Hex, { context }: PaymentCase): SignedFacts {
  const { chainId } = context.settings.network;
  const { from, to, token, amount: value, deadline, validAfter, facilitator } = signed;
  const nonce = permit2NonceOf(signed.nonce);
  return signedFacts({
    signature,
    // Permit2 includes its deadline.
    authorization: { from, to, value, validAfter, validBefore: deadline + 1n, nonce },
    paymentId: permit2PaymentIdOf({ chainId, token, payer: from, nonce }),
    digest: typedDataDigest(permit2TypedData(chainId, signed)),
    settler: facilitator,
    transfer: transferOf(signed),
  });
}

/** The payload as it is sent on: the Facilitator may hand its signature to the token unread. */
function payloadSigned(payload: JsonObject, signature: Hex): JsonObject {
  const signed = payload.payload as JsonObject;
  return signed.signature === signature ? payload : { ...payload, payload: { ...signed, signature } };
}

/** Judges a version 1 payload. It echoes nothing, so it must pay one of the current options exactly. */
export async function judgeV1(credential: StandardCredential, at: PaymentCase): Promise<PaymentVerdict> {
  const { network, payload: signed } = parsed(x402V1PayloadSchema, credential);
  const { settings } = at.context;
  if (findNetwork(network, settings.extraNetworks)?.chainId !== settings.network.chainId)
    return verdictOfFault("network");
  const { authorization } = signed;
  const now = await at.route.offers.now(at.request);
  if (now.outage) throw now.outage;
  const offers = soldByEip3009(now.offers, at.route.presentation).filter(({ context }) => context === at.context);
  const offer = offers.find(({ payTo, amount }) => payTo === authorization.to && amount === authorization.value);
  if (!offer) {
    // What it pays may be left out of the options now: that is no reason to refuse it.
    const outage = now.outages.get(at.context);
    if (outage) throw outage;
    return verdictOfFault("terms");
  }
  const { token, payTo, amount } = offer;
  const facts = eip3009Facts(signed, token, at);
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
  return judgePresented({ ...facts, token, settlement }, at);
}

/**
 * Judges a version 2 payload. It echoes the option, whose memo proves the quote: quoted terms hold until they expire.
 */
export async function judgeV2(credential: StandardCredential, at: PaymentCase): Promise<PaymentVerdict> {
  const option = optionIn(credential);
  if (typeof option === "string") return verdictOfFault(option);
  const { accepted, resource, signature, payTo, max, permit2 } = option;
  const { settings, terms, time } = at.context;
  const { amount, extra } = accepted;
  if (accepted.network !== caip2Of(settings.network.chainId)) return verdictOfFault("network");
  if (resource && resource.url !== at.resource && resource.url !== shortResourceOf(at.resource)) {
    return verdictOfFault("resource");
  }
  if (payTo !== accepted.payTo || max !== amount) return verdictOfFault("terms");
  const memo = parseMemo(extra?.memo);
  const facts = {
    method: quotedMethod(at.request, settings),
    resource: at.resource,
    amount,
    token: accepted.asset,
    payTo,
    network: settings.network.name,
    ...(at.bodyHash !== undefined && { bodyHash: at.bodyHash }),
    ...(permit2 && { transfer: transferOf(permit2) }),
  };
  if (!memo || !isMemoGenuine(memo, facts, settings.memoKeys)) return verdictOfFault("memo");
  const token = terms.token(checksum(accepted.asset));
  if (!token) {
    // Read for the next attempt: payloads alone must end the outage too. The terms log what fails.
    void terms.load([], true).catch(() => undefined);
    throw new Unavailable("The token's terms could not be read from the chain yet.", { retryAfterSec: 2 });
  }
  const signed = permit2 ? permit2Facts(permit2, signature, at) : eip3009Facts(option, token, at);
  const payload = payloadSigned(credential.payload, signed.signature);
  const settlement = { paymentPayload: payload, paymentRequirements: payload.accepted } as unknown as X402RequestWire;
  const identifier = paymentIdentifierOf(payload);
  if (identifier.kind === "malformed") return verdictOfFault("payment_identifier");
  const named = identifier.kind === "given" ? { identifier: identifier.id } : {};
  const isLate = time.latestSec() >= memo.expiresAtSec;
  const isQuotedAfter = extra?.paymentFlow !== "upfront";
  return judgePresented({ ...signed, token, settlement, isLate, isQuotedAfter, ...named }, at);
}

type Option = {
  readonly accepted: z.output<typeof requirementsV2Schema> | z.output<typeof requirementsUptoSchema>;
  readonly resource: { readonly url: string } | null | undefined;
  readonly signature: Hex;
  /** as signed */
  readonly payTo: Address;
  /** as signed: the amount, or the most of it */
  readonly max: bigint;
} & (
  | { readonly permit2: Permit2Authorization; readonly authorization?: undefined }
  | { readonly permit2?: undefined; readonly authorization: Authorization }
);

/** Goes by what was signed, as the Facilitator does; the option has to name the same way of moving money. */
function optionIn(credential: StandardCredential): Option | Fault {
  const { payload } = credential;
  if (!isOverPermit2(payload.payload)) {
    const { accepted, resource, payload: signed } = parsed(payloadV2Schema, credential);
    if (!isEip3009(accepted.extra)) return "transfer_method";
    const { authorization, signature } = signed;
    const { to: payTo, value: max } = authorization;
    return { accepted, resource, signature, payTo, max, authorization };
  }
  const isUpto = isObject(payload.accepted) && payload.accepted.scheme === "upto";
  const {
    accepted,
    resource,
    payload: signed,
  } = isUpto ? parsed(payloadUptoSchema, credential) : parsed(payloadPermit2Schema, credential);
  if (!isPermit2(accepted.extra)) return "transfer_method";
  const permit2 = permit2AuthorizationOf(signed);
  const { spender, token, to: payTo, amount: max } = permit2;
  if (spender !== proxyOf(transferOf(permit2))) return "spender";
  if (token !== accepted.asset) return "terms";
  return { accepted, resource, signature: signed.signature, payTo, max, permit2 };
}

/** Returns how a payment over Permit2 moves, by the witness that its payer signed. */
const transferOf = ({ facilitator }: Permit2Authorization): Permit2Method => (facilitator ? "upto" : "permit2");

const isOverPermit2 = (signed: unknown): boolean =>
  isObject(signed) && "permit2Authorization" in signed && !("authorization" in signed);
