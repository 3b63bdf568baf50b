/**
 * Defines the extension `offer-receipt` of x402: the terms that a provider signs before a payment, and the receipt that
 * it signs for a request that was paid and served. Both are EIP-712 messages or JSON Web Signatures.
 */
import * as z from "zod";
import { fieldsOf, wholeOf } from "./arguments";
import type { TypedData, TypedDataField } from "./eip712";
import { MAX_RESOURCE_BYTES } from "./resource";
import { signature65Schema } from "./schemas";

const name = z.string().min(1).max(128);

const url = z.string().min(1).max(MAX_RESOURCE_BYTES);

const seconds = z.number().int().nonnegative();

/** The terms of one entry of `accepts`, as a provider signs them. */
export const offerPayloadSchema = z.object({
  version: z.literal(1),
  resourceUrl: url,
  scheme: name,
  /** CAIP-2 */
  network: name,
  asset: name,
  payTo: name,
  /** base units */
  amount: z.string().min(1).max(80),
  /** unix seconds; absent or 0: no end */
  validUntil: seconds.optional(),
});

export type OfferPayload = z.output<typeof offerPayloadSchema>;

/** What a provider confirms of a request that was paid and served. */
export const receiptPayloadSchema = z.object({
  version: z.literal(1),
  /** CAIP-2 */
  network: name,
  resourceUrl: url,
  payer: name,
  /** unix seconds */
  issuedAt: seconds,
  /** of the transfer; absent or empty: not named */
  transaction: z.string().max(128).optional(),
});

export type ReceiptPayload = z.output<typeof receiptPayloadSchema>;

/** The longest JSON Web Signature that is read. */
const MAX_JWS_LENGTH = 8_192;

const jwsSchema = z.object({ format: z.literal("jws"), signature: z.string().min(5).max(MAX_JWS_LENGTH) });

/** A signed offer as it is sent; a JWS holds its payload inside its signature. */
export const signedOfferSchema = z.discriminatedUnion("format", [
  z.object({ format: z.literal("eip712"), payload: offerPayloadSchema, signature: signature65Schema }),
  jwsSchema,
]);

export type SignedOffer = z.output<typeof signedOfferSchema>;

/** A signed receipt as it is sent; a JWS holds its payload inside its signature. */
export const signedReceiptSchema = z.discriminatedUnion("format", [
  z.object({ format: z.literal("eip712"), payload: receiptPayloadSchema, signature: signature65Schema }),
  jwsSchema,
]);

export type SignedReceipt = z.output<typeof signedReceiptSchema>;

const fields = (declaration: string): readonly TypedDataField[] =>
  declaration.split(",").map((field) => {
    const [type, fieldName] = field.split(" ") as [TypedDataField["type"], string];
    return { name: fieldName, type };
  });

const OFFER = fields(
  "uint256 version,string resourceUrl,string scheme,string network,string asset,string payTo,string amount,uint256 validUntil",
);

const RECEIPT = fields(
  "uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction",
);

/** Chain id 1 on every network: the extension signs statements, and never a transaction. */
const domainOf = (statement: "offer" | "receipt") => ({ name: `x402 ${statement}`, version: "1", chainId: 1 });

/** The message that an EIP-712 offer signs; an absent end is signed as 0. */
export function offerTypedData(payload: OfferPayload): TypedData {
  const { version, validUntil = 0, ...terms } = fieldsOf(payload, "payload");
  const message = {
    ...terms,
    version: wholeOf(version, "payload.version"),
    validUntil: wholeOf(validUntil, "payload.validUntil"),
  };
  return { domain: domainOf("offer"), primaryType: "Offer", types: { Offer: OFFER }, message };
}

/** The message that an EIP-712 receipt signs; an absent transaction is signed as the empty text. */
export function receiptTypedData(payload: ReceiptPayload): TypedData {
  const { version, issuedAt, transaction = "", ...facts } = fieldsOf(payload, "payload");
  const message = {
    ...facts,
    version: wholeOf(version, "payload.version"),
    issuedAt: wholeOf(issuedAt, "payload.issuedAt"),
    transaction,
  };
  return { domain: domainOf("receipt"), primaryType: "Receipt", types: { Receipt: RECEIPT }, message };
}
