/** The client's calls about one-time payments, their proofs, and refunds. */
import type { Hex, PaymentProof, PaymentProofWire, SignedPaymentWire } from "../protocol";
import {
  authorizeResponseSchema,
  type PaymentStatus,
  type ProofVerdict,
  paymentStatusSchema,
  releaseResponseSchema,
  verifyProofResponseSchema,
  type X402RequestWire,
  type X402Settlement,
  type X402Verdict,
  x402SettleResponseSchema,
  x402VerifyResponseSchema,
} from "./payments";
import {
  type RefundList,
  type RefundRequestWire,
  refundListSchema,
  refundResponseSchema,
  type SettledRefund,
} from "./refunds";
import {
  type CallOptions,
  type Calls,
  type LookUp,
  type PaymentCallOptions,
  type Pending,
  pending,
  type Refused,
  read,
  refusal,
} from "./transport";

/** What became of a payment. */
export type AuthorizeOutcome = { readonly kind: "settled"; readonly proof: PaymentProof } | Pending | Refused;

/** What became of a refund. */
export type RefundOutcome = { readonly kind: "settled"; readonly refund: SettledRefund } | Pending | Refused;

export const paymentCalls = (calls: Calls) => ({
  /** Has a signed transfer settled. Safe to repeat for ever: the same request gets the same proof. */
  async authorize(signedPayment: SignedPaymentWire, { signal }: CallOptions = {}): Promise<AuthorizeOutcome> {
    const answer = await calls.exchange("POST /authorize", { body: { signedPayment }, signal });
    if (answer.status === 200) return { kind: "settled", proof: read(authorizeResponseSchema, answer).proof };
    return answer.status === 202 ? pending(answer) : refusal(answer);
  },

  /** Has a signed refund settled. Safe to repeat: an id and index is refunded once. */
  async refund(request: RefundRequestWire, { signal }: CallOptions = {}): Promise<RefundOutcome> {
    const answer = await calls.exchange("POST /refunds", { body: request, signal });
    if (answer.status === 200) return { kind: "settled", refund: read(refundResponseSchema, answer) };
    return answer.status === 202 ? pending(answer) : refusal(answer);
  },

  /** The settled refunds of a payment, a debit or a charge, by the id that they are counted under. */
  async refunds(id: Hex, call: CallOptions = {}): Promise<LookUp<RefundList>> {
    return calls.lookUp("GET /refunds/{id}", refundListSchema, { params: { id }, ...call });
  },

  /** How a payment ended, by its id: never its proof, memo or resource. */
  async payment(id: Hex, call: CallOptions = {}): Promise<LookUp<PaymentStatus>> {
    return calls.lookUp("GET /payments/{id}", paymentStatusSchema, { params: { id }, ...call });
  },

  /** Verifies a proof; `valid: false` when its payment was reversed. */
  async verifyProof(proof: PaymentProofWire, call: PaymentCallOptions = {}): Promise<ProofVerdict> {
    const answer = await calls.exchange("POST /proofs/verify", { body: { proof }, ...call });
    if (answer.status === 200) return read(verifyProofResponseSchema, answer);
    const { error } = refusal(answer);
    return { valid: false, reason: error.code };
  },

  /**
   * Standard x402: would this payload settle? With `grant`, also reserves the amount for that purchase until it is
   * settled, released, or `validBefore` passes.
   */
  async x402Verify(request: X402RequestWire, call: PaymentCallOptions = {}): Promise<X402Verdict> {
    const answer = await calls.exchange("POST /verify", { body: withVersion(request), ...call });
    if (answer.status === 200) return read(x402VerifyResponseSchema, withoutNulls(answer));
    const { error } = refusal(answer);
    return { isValid: false, invalidReason: error.code, invalidMessage: error.message };
  },

  /** Ends the reservation that `x402Verify` made for a purchase. @returns whether there was one; safe to repeat */
  async releasePayment(paymentId: Hex, grantId: Hex, call: CallOptions = {}): Promise<boolean> {
    const input = { params: { id: paymentId }, body: { grantId }, ...call };
    const answer = await calls.exchange("POST /payments/{id}/release", input);
    if (answer.status === 200) return read(releaseResponseSchema, answer).released;
    throw refusal(answer).error;
  },

  /** Standard x402: settle. A 503 (outcome unknown) throws Unavailable; asking again does not pay twice. */
  async x402Settle(request: X402RequestWire, call: PaymentCallOptions = {}): Promise<X402Settlement> {
    const answer = await calls.exchange("POST /settle", { body: withVersion(request), ...call });
    if (answer.status === 200) return read(x402SettleResponseSchema, withoutNulls(answer));
    const { error } = refusal(answer);
    const { network } = request.paymentRequirements;
    return { success: false, errorReason: error.code, errorMessage: error.message, transaction: "", network };
  },
});

/** Facilitators of another make write null for a field that is absent. */
function withoutNulls<A extends { readonly json: unknown }>(answer: A): A {
  const { json } = answer;
  if (typeof json !== "object" || json === null) return answer;
  return { ...answer, json: Object.fromEntries(Object.entries(json).filter(([, value]) => value !== null)) };
}

const withVersion = (request: X402RequestWire) => ({ x402Version: request.paymentPayload.x402Version, ...request });
