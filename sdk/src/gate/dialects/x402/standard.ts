/**
 * Reads standard x402 payloads, versions 1 and 2: what they pay, by which option, and how its money moves. What was read
 * is checked in `judge-standard`.
 */
import type { X402RequestWire } from "../../../facilitator/payments";
import {
  caip2Of,
  checksum,
  findNetwork,
  type Hex,
  isMemoGenuine,
  type JsonObject,
  parseMemo,
  paymentIdentifierOf,
  shortResourceOf,
  x402V1PayloadSchema,
} from "../../../protocol";
import type { Candidate, PaymentAnswers, PaymentVerdict } from "../../core/claim-payment";
import { MAX_TIMEOUT_SEC, methodOf, soldInVersion1 } from "../../core/offers";
import type { PaymentCase } from "../../core/payment-case";
import { requireToken } from "../../core/terms";
import { methodOfPayload, parsed, readable, signedByToken } from "../../methods";
import { checkPresented, verdictOfFault } from "../../schemes/transfer/check";
import type { StandardCredential } from "./credentials";

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
