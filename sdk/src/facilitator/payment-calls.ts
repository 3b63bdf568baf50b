/** Calls a Facilitator about one-time payments and their proofs. */
import type { Hex, PaymentProof, PaymentProofWire, SignedPaymentWire } from "../protocol";
import { type CallOptions, type Calls, type LookUp, type Pending, pending, type Refused, read, refusal } from "./calls";
import {
  authorizeResponseSchema,
  type PaymentStatus,
  type ProofVerdict,
  paymentStatusSchema,
  verifyProofResponseSchema,
} from "./payments";
import {
  type X402RequestWire,
  type X402Settlement,
  type X402Verdict,
  x402SettleResponseSchema,
  x402VerifyResponseSchema,
} from "./x402";

/** What became of a payment. */
export type AuthorizeOutcome = { readonly kind: "settled"; readonly proof: PaymentProof } | Pending | Refused;

export const paymentCalls = (calls: Calls) => ({
  /** Has a signed transfer settled. Safe to repeat for ever: the same request gets the same proof. */
  async authorize(signedPayment: SignedPaymentWire, { signal }: CallOptions = {}): Promise<AuthorizeOutcome> {
    const answer = await calls.exchange({
      method: "POST",
      path: "/authorize",
      body: { signedPayment },
      signal,
    });
    if (answer.status === 200) return { kind: "settled", proof: read(authorizeResponseSchema, answer).proof };
    return answer.status === 202 ? pending(answer) : refusal(answer);
  },

  /** How a payment ended, by its id: never its proof, memo or resource. */
  async payment(id: Hex, call: CallOptions = {}): Promise<LookUp<PaymentStatus>> {
    return calls.lookUp(paymentStatusSchema, { method: "GET", path: `/payments/${id}`, ...call });
  },

  /** Verifies a proof; `valid: false` when its payment was reversed. */
  async verifyProof(proof: PaymentProofWire, call: CallOptions = {}): Promise<ProofVerdict> {
    const answer = await calls.exchange({ method: "POST", path: "/proofs/verify", body: { proof }, ...call });
    if (answer.status === 200) return read(verifyProofResponseSchema, answer);
    const { error } = refusal(answer);
    return { valid: false, reason: error.code };
  },

  /** Standard x402: would this payload settle? */
  async x402Verify(request: X402RequestWire, call: CallOptions = {}): Promise<X402Verdict> {
    const answer = await calls.exchange({ method: "POST", path: "/verify", body: withVersion(request), ...call });
    if (answer.status === 200) return read(x402VerifyResponseSchema, answer);
    const { error } = refusal(answer);
    return { isValid: false, invalidReason: error.code, invalidMessage: error.message };
  },

  /** Standard x402: settle. A 503 (outcome unknown) throws Unavailable; asking again does not pay twice. */
  async x402Settle(request: X402RequestWire, call: CallOptions = {}): Promise<X402Settlement> {
    const answer = await calls.exchange({ method: "POST", path: "/settle", body: withVersion(request), ...call });
    if (answer.status === 200) return read(x402SettleResponseSchema, answer);
    const { error } = refusal(answer);
    const { network } = request.paymentRequirements;
    return { success: false, errorReason: error.code, errorMessage: error.message, transaction: "", network };
  },
});

const withVersion = (request: X402RequestWire) => ({ x402Version: request.paymentPayload.x402Version, ...request });
