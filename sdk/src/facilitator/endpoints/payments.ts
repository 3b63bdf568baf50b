/** Endpoints of one-time payments, their proofs and refunds, and of the standard x402 interface. */
import * as z from "zod";
import { hash32Schema } from "../../protocol";
import {
  authorizeRequestSchema,
  authorizeResponseSchema,
  paymentStatusSchema,
  pendingSchema,
  verifyProofRequestSchema,
  verifyProofResponseSchema,
} from "../payments";
import { refundListSchema, refundRequestSchema, refundResponseSchema } from "../refunds";
import { supportedSchema } from "../supported";
import {
  releaseRequestSchema,
  releaseResponseSchema,
  x402RequestSchema,
  x402SettleResponseSchema,
  x402VerifyResponseSchema,
} from "../x402";
import { endpoints, get, PAYMENT_ERRORS, post, REFUND_ERRORS } from "./endpoint";

const byId = z.object({ id: hash32Schema });

const ofPayment = { id: "payment" } as const;

/** One-time payments: settling them, and looking them up. */
export const PAYMENT_ENDPOINTS = endpoints("payments", {
  authorizePayment: {
    ...post("/authorize"),
    text: "Settles an EIP-3009 authorization and returns a proof for the gate. Send the same body again after a 202 or a lost answer: the token accepts each authorization once, so a repetition never pays twice.",
    body: authorizeRequestSchema,
    answers: { 200: authorizeResponseSchema, 202: pendingSchema },
    errors: PAYMENT_ERRORS,
  },
  getPayment: {
    ...get("/payments/{id}"),
    text: "Returns whether a payment is pending, settled, failed, reversed or unknown. Anyone can compute the id, so the answer has no proof, memo or resource. It lists the settled refunds, which are public on the chain.",
    params: byId,
    answers: { 200: paymentStatusSchema },
    objects: ofPayment,
  },
  releasePayment: {
    ...post("/payments/{id}/release"),
    text: "Ends the reservation that `POST /verify` made for a purchase, so that the payer's money is available again. Only who knows the purchase's `grantId` can end it; `released` is false when there was none, or the payment was accepted.",
    params: byId,
    body: releaseRequestSchema,
    answers: { 200: releaseResponseSchema },
    objects: ofPayment,
  },
  verifyProof: {
    ...post("/proofs/verify"),
    text: "Returns whether this Facilitator signed the proof and its payment is still settled. Gates check the signature themselves and call this where a reorganisation matters.",
    body: verifyProofRequestSchema,
    answers: { 200: verifyProofResponseSchema },
  },
});

/** Refunds of payments. */
export const REFUND_ENDPOINTS = endpoints("payments", {
  createRefund: {
    ...post("/refunds"),
    text: "Settles a transfer that the payee or the provider signed back to the payer of a payment, a debit or a charge. The nonce names what is refunded, and the refunds of one id never exceed what was paid. The signature alone authorizes it. Send the same body again after a 202 or a lost answer.",
    body: refundRequestSchema,
    answers: { 200: refundResponseSchema, 202: pendingSchema },
    errors: [...REFUND_ERRORS, "InvalidSignature"],
  },
  listRefunds: {
    ...get("/refunds/{id}"),
    text: "Lists the settled refunds of a payment, a debit or a charge, which are public on the chain. `id` is the one that refunds are counted under: the paymentId, or a hash that anyone can compute. An id without refunds has an empty list.",
    params: byId,
    answers: { 200: refundListSchema },
    objects: ofPayment,
  },
});

/** The calls that x402 clients and servers make. */
export const X402_ENDPOINTS = endpoints("x402", {
  verifyX402: {
    ...post("/verify"),
    text: "Implements `POST /verify` of x402 versions 1 and 2: returns whether the payload would settle and buy something. Nothing moves. With `grant`, it also reserves the amount for that purchase until the payment is settled, released, or past its `validBefore`.",
    body: x402RequestSchema,
    answers: { 200: x402VerifyResponseSchema },
  },
  settleX402: {
    ...post("/settle"),
    text: "Implements `POST /settle` of x402 versions 1 and 2: settles the payload and grants the payment to one purchase. `settlement_pending` means that the outcome is unknown; send the same body again.",
    body: x402RequestSchema,
    answers: { 200: x402SettleResponseSchema },
  },
  getSupported: {
    ...get("/supported"),
    text: "Lists chains, tokens, proof signers, relayers and contracts, and the `kinds` that stock x402 clients read.",
    answers: { 200: supportedSchema },
    chain: "shared",
  },
});
