/** The calls of who is paid: proofs, settlements by x402, and refunds. No payer needs them. */
import type { Hex, PaymentProofWire } from "../protocol";
import { type ProofVerdict, verifyProofResponseSchema } from "./payments";
import { type RefundRequestWire, refundResponseSchema, type SettledRefund } from "./refunds";
import {
  type CallOptions,
  type Calls,
  type PaymentCallOptions,
  type Pending,
  pending,
  type Refused,
  read,
  refusal,
} from "./transport";
import {
  releaseResponseSchema,
  type X402RequestWire,
  type X402Settlement,
  type X402Verdict,
  x402SettleResponseSchema,
  x402VerifyResponseSchema,
} from "./x402";

/** What became of a refund. */
export type RefundOutcome = { readonly kind: "settled"; readonly refund: SettledRefund } | Pending | Refused;

export const settlementCalls = (calls: Calls) => ({
  /** Has a signed refund settled. Safe to repeat: an id and index is refunded once. */
  async refund(request: RefundRequestWire, { signal }: CallOptions = {}): Promise<RefundOutcome> {
    const answer = await calls.exchange("POST /refunds", { body: request, signal });
    if (answer.status === 200) return { kind: "settled", refund: read(refundResponseSchema, answer) };
    return answer.status === 202 ? pending(answer) : refusal(answer);
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
