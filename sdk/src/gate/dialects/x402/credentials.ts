/** Reads the payment headers of x402 and of native proofs, and which form each holds. */
import { isDeepStrictEqual } from "node:util";
import { decodeJsonHeader, exactPayloadSchema, HEADER, type JsonObject, signatureWithV } from "../../../protocol";
import { isObject } from "../../../protocol/arguments";
import { ambiguous, isRawJson, singleHeader } from "../../core/dialect";
import type { GateRequest } from "../../core/request";

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
