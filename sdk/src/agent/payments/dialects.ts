/**
 * Speaks every dialect of payment over HTTP: reads what a 402 offers and what an answer reports, and builds the header that
 * pays. Knows no budget and no key.
 */
import {
  decodeJsonHeader,
  HEADER,
  type JsonObject,
  MAX_ANSWER_DEPTH,
  MAX_CREDENTIAL_BYTES,
  parseStrictJson,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import { type Arrival, readBounded } from "../core/request";
import { combined } from "./combined-quote";
import { chargesAskedBy, credentialHeader, isAskedByChallenge, receiptOfCharge } from "./mpp";
import { elsewhereIn, type ParsedQuote, readQuote, requestedUrl, type StandardOption } from "./quote";
import { signedOffersIn } from "./signed-statements";
import { type ExactPayload, payloadHeader, readQuoteV2 } from "./standard";

/** Reads what a 402 offers, in its body and in its headers. Consumes the body. */
export async function quoteOf(context: AgentContext, arrival: Arrival): Promise<ParsedQuote | undefined> {
  const { effects, networks } = context;
  const { response, template } = arrival;
  const text = await readBounded(effects, response);
  const requested = requestedUrl(template.url);
  const body = text === undefined ? undefined : parseStrictJson(text, MAX_ANSWER_DEPTH);
  const header = objectIn(response.headers, HEADER.paymentRequiredV2);
  const x402 = combined(readQuote(body, requested, networks), readQuoteV2(header, requested, networks));
  const quote = combined(x402, chargesAskedBy(arrival, context));
  const elsewhere = elsewhereIn(body, header, requested);
  return quote && { ...quote, elsewhere, signedOffers: await signedOffersIn(header) };
}

/** Says what a 402 without readable terms has in their place. */
export function notUnderstood({ headers }: Response): string {
  const message = "The provider asks for payment without terms that can be understood";
  if (isAskedByChallenge(headers)) {
    return `${message}: its WWW-Authenticate: Payment (MPP) names no charge of the method evm that can be read.`;
  }
  if ("location" in globalThis && !headers.has(HEADER.paymentRequiredV2)) {
    return `${message}: a page sees PAYMENT-REQUIRED only where the provider names it in Access-Control-Expose-Headers (CORS).`;
  }
  return `${message}: neither a JSON body with \`accepts\` nor a readable PAYMENT-REQUIRED header is there.`;
}

/** Returns the header that pays for an option by a signed transfer. */
export const headerOf = (option: StandardOption, signed: ExactPayload): { name: string; value: string } =>
  option.challenge ? credentialHeader(option, option.challenge, signed) : payloadHeader(option, signed);

const REPORTS = [HEADER.paymentResponse, HEADER.paymentResponseV2, HEADER.paymentReceipt];

/** Returns whether an answer has any header that reports a settlement. */
export const isReported = (headers: Headers): boolean => REPORTS.some((name) => headers.has(name));

/** Returns what a server reports of the settlement, in the form of x402's reports; undefined where it reports nothing. */
export const reportIn = (headers: Headers): JsonObject | undefined =>
  objectIn(headers, headers.has(HEADER.paymentResponse) ? HEADER.paymentResponse : HEADER.paymentResponseV2) ??
  receiptOfCharge(headers);

/** Returns the object in a header of a response; undefined where there is none, or it is malformed. */
export function objectIn(headers: Headers, name: string): JsonObject | undefined {
  const value = headers.get(name);
  return value === null ? undefined : decodeJsonHeader(value, 2 * MAX_CREDENTIAL_BYTES, MAX_ANSWER_DEPTH);
}
