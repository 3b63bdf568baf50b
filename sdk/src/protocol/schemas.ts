/**
 * Defines the wire's bodies, each once as a schema; the types are derived. Unknown keys are ignored, since peers may
 * send them.
 */
import * as z from "zod";
import { type Address, checksum, isAddress } from "./address";
import { parseAmount } from "./amounts";
import { fieldsOf } from "./arguments";
import { isLowS, SIGNATURE_65, signatureWithV } from "./eip712";
import { MAX_RESOURCE_BYTES } from "./headers";
import type { Hex } from "./hex";

export const addressSchema = z
  .string()
  .refine(isAddress, "must be an address: 0x and 40 hex digits")
  .meta({ pattern: "^0x[0-9a-fA-F]{40}$" })
  .transform((value): Address => checksum(value));

export const hash32Schema = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/, "must be 0x and 64 hex digits")
  .transform((value) => value.toLowerCase() as Hex);

/** A signature of an EOA (65 bytes) or a contract wallet (up to 2 KiB). */
export const signatureSchema = z
  .string()
  .regex(/^0x(?:[0-9a-fA-F]{2}){1,2048}$/, "must be 0x and hex digits, at most 2,048 bytes")
  .transform((value) => value as Hex);

/** r, s, v in 65 bytes: what a key signs, and nothing that a contract would have to judge. */
const plainSignature65Schema = z
  .string()
  .regex(/^0x[0-9a-fA-F]{130}$/, "must be 0x and 130 hex digits")
  .transform((value) => value as Hex);

/** The same of any wallet: v of 0 or 1 is read. */
export const signature65Schema = plainSignature65Schema.transform(signatureWithV);

/** Of a permit: a token takes 65 bytes as a key's alone, and some take a high s. */
export const permitSignatureSchema = signatureSchema
  .refine((value) => !SIGNATURE_65.test(value) || isLowS(value), "must have a low s, as wallets write it")
  .transform(signatureWithV);

/** A base-unit amount: decimal integer string on the wire, `bigint` inside. */
export const amountSchema = z
  .string()
  .refine((value) => parseAmount(value) !== undefined, "must be a decimal integer string of base units below 2^256")
  .meta({ pattern: "^(?:0|[1-9][0-9]{0,77})$" })
  .transform((value) => BigInt(value));

/** unix seconds as a decimal string, as EIP-3009 payloads carry them */
const timeSchema = amountSchema;

const networkNameSchema = z.string().min(1).max(64);

/** Of a payment: text that ties it to a request. */
export const memoSchema = z.string().min(1).max(256);

const resourceSchema = z.string().min(1).max(MAX_RESOURCE_BYTES);

export const authorizationSchema = z.object({
  from: addressSchema,
  to: addressSchema,
  value: amountSchema,
  validAfter: timeSchema,
  validBefore: timeSchema,
  nonce: hash32Schema,
});

/** The client-signed token transfer that `POST /authorize` takes. */
export const signedPaymentSchema = z.object({
  scheme: z.literal("exact"),
  network: networkNameSchema,
  token: addressSchema,
  authorization: authorizationSchema,
  signature: signatureSchema,
  memo: memoSchema,
  resource: resourceSchema,
});

export type SignedPayment = z.output<typeof signedPaymentSchema>;

export type SignedPaymentWire = z.input<typeof signedPaymentSchema>;

/** The Facilitator's signed evidence of a settled payment. */
export const paymentProofSchema = z.object({
  version: z.literal("1"),
  network: networkNameSchema,
  token: addressSchema,
  payer: addressSchema,
  payTo: addressSchema,
  amount: amountSchema,
  memo: memoSchema,
  resource: resourceSchema,
  transaction: hash32Schema,
  blockNumber: z.number().int().nonnegative(),
  /** block time, unix seconds */
  settledAt: z.number().int().nonnegative(),
  /** unix seconds */
  expiresAt: z.number().int().nonnegative(),
  facilitator: addressSchema,
  signature: plainSignature65Schema,
});

/** Amounts are `bigint`; `encodePaymentProof` writes the wire form. */
export type PaymentProof = z.output<typeof paymentProofSchema>;

export type PaymentProofWire = z.input<typeof paymentProofSchema>;

/** A field of another transfer method's payload: both beside each other would leave open which one is meant. */
export const otherMethodSchema = z
  .enum([], "must be absent: a payload has one transfer method")
  .meta({ type: "string", not: {} })
  .optional();

/** The service extension object of an accept entry. */
export const serviceExtensionSchema = z.object({
  facilitator: z.string().max(MAX_RESOURCE_BYTES).optional(),
  planId: hash32Schema.optional(),
  subscriptionScheme: z.boolean().optional(),
});

/** One payment option of a 402, with the standard x402 v1 fields beside this project's own. */
export const acceptEntrySchema = z.object({
  scheme: z.string().max(64),
  network: networkNameSchema,
  token: addressSchema.optional(),
  amount: amountSchema.optional(),
  payTo: addressSchema,
  memo: memoSchema.optional(),
  hoodlayer: serviceExtensionSchema.optional(),
  maxAmountRequired: amountSchema.optional(),
  asset: addressSchema.optional(),
  resource: z.string().max(MAX_RESOURCE_BYTES).optional(),
  description: z.string().nullish(),
  mimeType: z.string().nullish(),
  maxTimeoutSeconds: z.number().int().positive().optional(),
  extra: z
    .object({
      name: z.string().max(128).optional(),
      version: z.string().max(32).optional(),
      kind: z.string().optional(),
    })
    .loose()
    .nullish(),
});

export type AcceptEntry = z.output<typeof acceptEntrySchema>;

export type AcceptEntryWire = z.input<typeof acceptEntrySchema>;

/** The scheme of a plan's entry: stock clients parse it, and cannot pay it. */
export const SUBSCRIPTION_SCHEME = "subscription";

/** Returns whether an entry of this project's gates is a plan's, rather than the price of one request. */
export function isPlanEntry(entry: Pick<AcceptEntryWire, "scheme" | "extra">): boolean {
  const { scheme, extra } = fieldsOf(entry, "entry");
  return scheme === SUBSCRIPTION_SCHEME || extra?.kind === "subscription";
}

/** The length of a plan's periods; `count` of calendar months is at most 1,200. */
export const periodSchema = z.object({
  unit: z.enum(["second", "month"]),
  count: z.number().int().positive().max(4_294_967_295),
});

/** Terms of a plan in a 402; `interval` and `grace` in seconds. `period` is there for periods that are not in seconds. */
export const planTermsSchema = z.object({
  planId: hash32Schema,
  amount: amountSchema,
  interval: z.number().int().positive(),
  period: periodSchema.optional(),
  grace: z.number().int().nonnegative().optional(),
  token: addressSchema,
  network: networkNameSchema.optional(),
  payTo: addressSchema.optional(),
  name: z.string().max(256).optional(),
  metered: z.boolean().optional(),
});

export type PlanTerms = z.output<typeof planTermsSchema>;

export type PlanTermsWire = z.input<typeof planTermsSchema>;

/** A 402 body of this project. */
export const paymentRequiredSchema = z.object({
  version: z.literal("1"),
  x402Version: z.literal(1).optional(),
  accepts: z.array(acceptEntrySchema).max(64),
  plans: z.array(planTermsSchema).max(64).optional(),
  error: z.string().max(128).optional(),
  reason: z.string().max(128).optional(),
  message: z.string().max(2_048).optional(),
});

export type PaymentRequired = z.output<typeof paymentRequiredSchema>;

export type PaymentRequiredWire = z.input<typeof paymentRequiredSchema>;
