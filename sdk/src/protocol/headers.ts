/** Names every header of this wire, with its limits and CORS lists, and those that shared caches follow. */
export const HEADER = {
  payment: "X-PAYMENT",
  paymentResponse: "X-PAYMENT-RESPONSE",
  subscription: "X-Service-Sub",
  idempotencyKey: "Idempotency-Key",
  /** of an answer that was kept from an earlier request */
  replayed: "Idempotency-Replayed",
  // x402 version 2
  paymentRequiredV2: "PAYMENT-REQUIRED",
  paymentSignatureV2: "PAYMENT-SIGNATURE",
  paymentResponseV2: "PAYMENT-RESPONSE",
  /** of a failed answer whose payment is refunded */
  paymentRefund: "PAYMENT-REFUND",
  signIn: "SIGN-IN-WITH-X",
  /** of a metered answer: signed receipts of its charges */
  usageReceipt: "USAGE-RECEIPT",
  // MPP, the HTTP authentication scheme "Payment"
  authenticate: "WWW-Authenticate",
  authorization: "Authorization",
  /** in place of it, where the application reads that itself */
  paymentAuthorization: "Payment-Authorization",
  paymentReceipt: "Payment-Receipt",
} as const;

/** The longest URL that can be paid for. */
export const MAX_RESOURCE_BYTES = 2_048;

/** A longer payment header is refused with 400. */
export const MAX_CREDENTIAL_BYTES = 8 * 1_024;

/** The most that the version 2 quote in a header may take; entries that do not fit are left out. */
export const MAX_PAYMENT_REQUIRED_HEADER_BYTES = 3 * 1_024;

/** The most that all headers of a 402 may take: nginx refuses 4 KiB by default. */
export const MAX_QUOTE_HEADERS_BYTES = 4_000;

/** Of these, what every answer of a gate, its framework and its server has. */
export const COMMON_HEADERS_BYTES = 960;

/** What a gated response varies by, for caches. */
export const VARY = [
  HEADER.payment,
  HEADER.paymentSignatureV2,
  HEADER.subscription,
  HEADER.signIn,
  HEADER.authorization,
  HEADER.paymentAuthorization,
].join(", ");

/** Stock clients send Access-Control-Expose-Headers as a request header, so it has to be allowed. */
export const CORS_ALLOW_HEADERS = [
  "Content-Type",
  HEADER.payment,
  HEADER.paymentSignatureV2,
  HEADER.subscription,
  HEADER.idempotencyKey,
  HEADER.signIn,
  HEADER.authorization,
  HEADER.paymentAuthorization,
  "Accept-Payment",
  "Access-Control-Expose-Headers",
  "traceparent",
  "tracestate",
].join(", ");

/** What a page of another origin may read of a gated response. */
export const CORS_EXPOSE_HEADERS = [
  HEADER.paymentResponse,
  HEADER.paymentRequiredV2,
  HEADER.paymentResponseV2,
  HEADER.paymentRefund,
  HEADER.usageReceipt,
  HEADER.replayed,
  HEADER.authenticate,
  HEADER.paymentReceipt,
  "Retry-After",
].join(", ");

/**
 * Returns whether a header speaks to shared caches alone, which follow it instead of `Cache-Control` (RFC 9213, and what
 * caches had before it).
 */
export function isForSharedCaches(name: string): boolean {
  // Most names end otherwise: a handler's headers are looked at for each answer.
  const last = name.charCodeAt(name.length - 1) | LOWER_CASE;
  return (last === L || last === S) && FOR_SHARED_CACHES.test(name);
}

const LOWER_CASE = 0x20;

const L = 0x6c;

const S = 0x73;

const FOR_SHARED_CACHES = /^(?:.+-cache-control|surrogate-control|edge-control|x-accel-expires)$/i;
