/**
 * Wire bodies of the standard x402 Facilitator interface, versions 1 and 2 of the protocol, as stock packages send and
 * read them. Negatives are HTTP 200 with `isValid: false` or `success: false`.
 */
import * as z from "zod";
import {
  addressSchema,
  amountSchema,
  exactPayloadSchema,
  hash32Schema,
  MAX_RESOURCE_BYTES,
  proxiedPayloadSchema,
  signature65Schema,
  uptoPayloadSchema,
  x402V1PayloadSchema,
} from "../protocol";
import { DAY_SEC } from "../protocol/periods";

const networkSchema = z.string().min(1).max(64);

const textSchema = z.string().max(2_048);

const timeoutSchema = z.number().int().positive().max(DAY_SEC);

const extraSchema = z.object({ name: z.string().max(128).optional(), version: z.string().max(32).optional() }).loose();

export const requirementsV1Schema = z.object({
  scheme: z.literal("exact"),
  network: networkSchema,
  maxAmountRequired: amountSchema,
  resource: z.string().max(MAX_RESOURCE_BYTES),
  description: textSchema.optional(),
  mimeType: textSchema.optional(),
  payTo: addressSchema,
  maxTimeoutSeconds: timeoutSchema,
  asset: addressSchema,
  extra: extraSchema.nullish(),
});

export const requirementsV2Schema = z.object({
  scheme: z.literal("exact"),
  /** CAIP-2 */
  network: networkSchema,
  amount: amountSchema,
  asset: addressSchema,
  payTo: addressSchema,
  maxTimeoutSeconds: timeoutSchema,
  extra: extraSchema.nullish(),
});

export const payloadV2Schema = z.object({
  x402Version: z.literal(2),
  payload: exactPayloadSchema,
  accepted: requirementsV2Schema,
  resource: z
    .object({ url: z.string().max(MAX_RESOURCE_BYTES) })
    .loose()
    .nullish(),
});

/** Requirements of the scheme `upto`: `amount` is the maximum, and what is charged when they are settled. */
export const requirementsUptoSchema = requirementsV2Schema.extend({ scheme: z.literal("upto") });

const extensionsSchema = z.record(z.string(), z.unknown()).optional();

/** `exact` through x402's proxy. */
export const payloadProxiedSchema = payloadV2Schema.extend({
  payload: proxiedPayloadSchema,
  extensions: extensionsSchema,
});

export const payloadUptoSchema = payloadV2Schema.extend({
  payload: uptoPayloadSchema,
  accepted: requirementsUptoSchema,
  extensions: extensionsSchema,
});

/** Names the one purchase that a payment is for. Gates of this project send it; stock servers do not. */
export const grantRequestSchema = z.object({
  /** 32 bytes that only this gate's claim store can produce */
  id: hash32Schema,
  /** the URL that is bought, as the gate names it; what the payload says does not count */
  resource: z.string().max(MAX_RESOURCE_BYTES),
});

/** The body of `/verify` and `/settle`; stock servers also send `x402Version` beside the payload, which repeats it. */
export const x402RequestSchema = z.union([
  z.object({
    paymentPayload: x402V1PayloadSchema,
    paymentRequirements: requirementsV1Schema,
    grant: grantRequestSchema.optional(),
  }),
  z.object({
    paymentPayload: payloadV2Schema,
    paymentRequirements: requirementsV2Schema,
    grant: grantRequestSchema.optional(),
  }),
  z.object({
    paymentPayload: payloadProxiedSchema,
    paymentRequirements: requirementsV2Schema,
    grant: grantRequestSchema.optional(),
  }),
  z.object({
    paymentPayload: payloadUptoSchema,
    paymentRequirements: requirementsUptoSchema,
    grant: grantRequestSchema.optional(),
  }),
]);

export type X402Request = z.output<typeof x402RequestSchema>;

export type X402RequestWire = z.input<typeof x402RequestSchema>;

export const x402VerifyResponseSchema = z.discriminatedUnion("isValid", [
  z.object({
    isValid: z.literal(true),
    /** absent from some Facilitators of another make */
    payer: addressSchema.optional(),
    /** the amount is held for the `grant.id` of the request; only where one was sent */
    reserved: z.literal(true).optional(),
  }),
  z.object({
    isValid: z.literal(false),
    /** the default where a Facilitator of another make names none */
    invalidReason: z.string().max(128).default("unexpected_verify_error"),
    invalidMessage: textSchema.optional(),
    payer: addressSchema.optional(),
  }),
]);

export type X402Verdict = z.output<typeof x402VerifyResponseSchema>;

export type X402VerdictWire = z.input<typeof x402VerifyResponseSchema>;

/** The purchase whose reservation ends; who knows its id may end it. */
export const releaseRequestSchema = z.object({ grantId: hash32Schema });

/** False also for a payment that was accepted, released before, or never seen. */
export const releaseResponseSchema = z.object({ released: z.boolean() });

export const x402SettleResponseSchema = z.discriminatedUnion("success", [
  z.object({
    success: z.literal(true),
    /** absent from some Facilitators of another make */
    payer: addressSchema.optional(),
    /** "" when an `upto` payment was settled at 0 */
    transaction: z.string().max(66),
    network: networkSchema,
    /** base units; of the scheme `upto`: what was charged */
    amount: z.string().max(78).optional(),
    /** the signed statement that this payment belongs to the `grant.id` of the request; only where one was sent */
    grant: z.object({ facilitator: addressSchema, signature: signature65Schema }).optional(),
  }),
  z.object({
    success: z.literal(false),
    /** the default where a Facilitator of another make names none */
    errorReason: z.string().max(128).default("unexpected_settle_error"),
    errorMessage: textSchema.optional(),
    payer: addressSchema.optional(),
    /** "" when nothing was sent: stock clients demand the field */
    transaction: z.string().max(66),
    /** "" from some Facilitators of another make */
    network: z.string().max(64),
  }),
]);

export type X402Settlement = z.output<typeof x402SettleResponseSchema>;

export type X402SettlementWire = z.input<typeof x402SettleResponseSchema>;
