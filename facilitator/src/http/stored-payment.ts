/** Finds which payment a request is about, whatever its endpoint: for a chain that has no endpoints here any more. */
import {
  authorizeRequestSchema,
  refundRequestSchema,
  verifyProofRequestSchema,
  x402RequestSchema,
} from "turnpike/facilitator";
import { type Hex, paymentIdOf, type SignedPayment } from "turnpike/protocol";
import { paymentOfProof } from "../payments";
import { paymentIdOfExact } from "./routes/x402";
import { exactRequestOf } from "./routes/x402-request";

/** A refund is stored as a payment is. @returns undefined for a body that no endpoint of these would read */
export function paymentIdIn(body: unknown, chainId: number): Hex | undefined {
  const signed = authorizeRequestSchema.safeParse(body).data?.signedPayment ?? refundRequestSchema.safeParse(body).data;
  if (signed) return idOfSigned(signed, chainId);
  const proof = verifyProofRequestSchema.safeParse(body).data?.proof;
  if (proof) return paymentOfProof(proof, chainId).paymentId;
  const asked = x402RequestSchema.safeParse(body).data;
  const exact = asked && exactRequestOf(asked, "settle");
  return exact === undefined || typeof exact === "string" ? undefined : paymentIdOfExact(chainId, exact);
}

type Signed = Pick<SignedPayment, "token" | "authorization">;

const idOfSigned = ({ token, authorization: { from: payer, nonce } }: Signed, chainId: number): Hex =>
  paymentIdOf({ chainId, token, payer, nonce });
