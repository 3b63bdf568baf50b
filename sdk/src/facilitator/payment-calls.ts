/** A payer's calls about one-time payments. */
import type { Hex, PaymentProof, SignedPaymentWire } from "../protocol";
import { authorizeResponseSchema, type PaymentStatus, paymentStatusSchema } from "./payments";
import { type RefundList, refundListSchema } from "./refunds";
import {
  type CallOptions,
  type Calls,
  type LookUp,
  type Pending,
  pending,
  type Refused,
  read,
  refusal,
} from "./transport";

/** What became of a payment. */
export type AuthorizeOutcome = { readonly kind: "settled"; readonly proof: PaymentProof } | Pending | Refused;

export const paymentCalls = (calls: Calls) => ({
  /** Has a signed transfer settled. Safe to repeat for ever: the same request gets the same proof. */
  async authorize(signedPayment: SignedPaymentWire, { signal }: CallOptions = {}): Promise<AuthorizeOutcome> {
    const answer = await calls.exchange("POST /authorize", { body: { signedPayment }, signal });
    if (answer.status === 200) return { kind: "settled", proof: read(authorizeResponseSchema, answer).proof };
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
});
