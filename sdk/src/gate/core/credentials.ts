/** Reads a request's credentials. Refuses ambiguous ones; judges none. */
import { decodeJsonHeader, HEADER, type JsonObject, MAX_CREDENTIAL_BYTES, TurnpikeError } from "../../protocol";
import type { GateRequest } from "./request";

export type PaymentCredential =
  | { readonly kind: "proof"; readonly payload: JsonObject }
  | { readonly kind: "x402-v1"; readonly payload: JsonObject }
  | { readonly kind: "x402-v2"; readonly payload: JsonObject }
  | { readonly kind: "malformed"; readonly header: string };

export interface Credentials {
  readonly subscription: string | undefined;
  /** an answer to a `sign-in-with-x` challenge */
  readonly signIn?: string | undefined;
  readonly payment: PaymentCredential | undefined;
}

const PAYMENT_V1 = HEADER.payment.toLowerCase();

const PAYMENT_V2 = HEADER.paymentSignatureV2.toLowerCase();

const SUBSCRIPTION = HEADER.subscription.toLowerCase();

const SIGN_IN = HEADER.signIn.toLowerCase();

const NONE: Credentials = { subscription: undefined, payment: undefined };

/** @throws AmbiguousCredentials (400) for a repeated, joined or oversized header, or two payments at once */
export function readCredentials(request: GateRequest): Credentials {
  const subscription = single(request, SUBSCRIPTION);
  const v1 = single(request, PAYMENT_V1);
  const v2 = single(request, PAYMENT_V2);
  const signIn = single(request, SIGN_IN);
  if (subscription === undefined && v1 === undefined && v2 === undefined && signIn === undefined) return NONE;
  if (v1 !== undefined && v2 !== undefined) throw ambiguous("send one of X-PAYMENT and PAYMENT-SIGNATURE, not both");
  return {
    subscription,
    signIn,
    payment:
      v1 !== undefined
        ? readPayment(v1, HEADER.payment)
        : v2 !== undefined
          ? readPayment(v2, HEADER.paymentSignatureV2)
          : undefined,
  };
}

function single(request: GateRequest, name: string): string | undefined {
  const value = request.header(name);
  if (value === undefined) return undefined;
  // No credential contains a comma: one that is there joins two headers.
  if (value.includes(",")) throw ambiguous(`${name} was sent more than once`);
  if (value.length > MAX_CREDENTIAL_BYTES) throw ambiguous(`${name} is larger than ${MAX_CREDENTIAL_BYTES} bytes`);
  return value;
}

function readPayment(
  value: string,
  header: typeof HEADER.payment | typeof HEADER.paymentSignatureV2,
): PaymentCredential {
  const payload = decodeJsonHeader(value);
  if (!payload) return { kind: "malformed", header };
  const isNative = "version" in payload;
  const isStandard = "x402Version" in payload;
  if (isNative && isStandard) throw ambiguous("the payment has both `version` and `x402Version`");
  if (header === HEADER.payment && isNative) return { kind: "proof", payload };
  if (header === HEADER.payment && payload.x402Version === 1) return { kind: "x402-v1", payload };
  if (header === HEADER.paymentSignatureV2 && payload.x402Version === 2) return { kind: "x402-v2", payload };
  return { kind: "malformed", header };
}

const ambiguous = (what: string): TurnpikeError =>
  new TurnpikeError("AmbiguousCredentials", `The credentials have two readings: ${what}.`);
