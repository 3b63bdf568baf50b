/**
 * What this project speaks of x402 version 2 beyond the payment itself: the names of its extensions, the idempotency
 * key that a payload carries, and the signed message of `sign-in-with-x` (CAIP-122 with an EIP-4361 message).
 */
import * as z from "zod";
import { aList, aText, fieldsOf, type JsonObject } from "./arguments";
import { isLowS } from "./eip712";
import { concatBytes, type Hex, keccak256, utf8ToBytes } from "./hex";
import { addressSchema, amountSchema, signature65Schema, signatureSchema } from "./schemas";

/** The extensions of x402 version 2 that are understood, by name. */
export const EXTENSION = {
  /** an id that the client chooses: one id, one payment */
  paymentIdentifier: "payment-identifier",
  /** a wallet's signature as proof of who a subscriber is */
  signIn: "sign-in-with-x",
  /** what crawlers list: how to call the resource */
  discovery: "bazaar",
  /** the provider's signatures of what it offers and of what was paid and served */
  offerReceipt: "offer-receipt",
  /** this project's own: the plans, under the name of the service extension object */
  service: "hoodlayer",
} as const;

const PAYMENT_IDENTIFIER = /^[A-Za-z0-9_-]{16,128}$/;

/** The identifier of a version 2 payment: absent, usable, or malformed. */
export type PaymentIdentifier =
  | { readonly kind: "none" }
  | { readonly kind: "given"; readonly id: string }
  | { readonly kind: "malformed" };

/** The idempotency key in a version 2 payload, where the client has put one. */
export function paymentIdentifierOf(payload: JsonObject): PaymentIdentifier {
  fieldsOf(payload, "payload");
  const extension = member(payload.extensions, EXTENSION.paymentIdentifier);
  const id = member(member(extension, "info"), "id");
  if (id === undefined) return { kind: "none" };
  return typeof id === "string" && PAYMENT_IDENTIFIER.test(id) ? { kind: "given", id } : { kind: "malformed" };
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

// Nothing that could end a line: the message is lines, and each field has to stay in its own.
const line = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[^\p{Cc}\u2028\u2029]*$/u);

const visible = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[!-~]+$/);

const time = z
  .string()
  .max(40)
  .regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/)
  .refine((text) => !Number.isNaN(Date.parse(text)));

/** The body of the header `SIGN-IN-WITH-X`, as stock clients send it. Only EVM accounts can own a subscription. */
export const signInSchema = z.object({
  domain: visible(255),
  address: addressSchema,
  statement: line(1_024).optional(),
  uri: visible(2_048),
  version: z.literal("1"),
  /** CAIP-2 */
  chainId: z.string().regex(/^eip155:[1-9][0-9]{0,15}$/),
  type: z.literal("eip191"),
  nonce: z.string().regex(/^[A-Za-z0-9]{8,128}$/),
  issuedAt: time,
  expirationTime: time.optional(),
  notBefore: time.optional(),
  requestId: visible(256).optional(),
  resources: z.array(visible(2_048)).max(16).optional(),
  signature: signatureSchema,
});

export type SignIn = z.output<typeof signInSchema>;

/** The text that the wallet signs (EIP-4361): every field in its line, absent ones left out. */
export function signInMessage(fields: Omit<SignIn, "signature" | "type">): string {
  fieldsOf(fields, "fields");
  const { domain, address, statement, uri, version, chainId, nonce, issuedAt } = fields;
  const { expirationTime, notBefore, requestId, resources } = fields;
  for (const [name, value] of Object.entries({ domain, address, uri, chainId, nonce })) aText(value, `fields.${name}`);
  if (resources !== undefined) aList(resources, "fields.resources");
  const lines = [`${domain} wants you to sign in with your Ethereum account:`, address, ""];
  if (statement !== undefined && statement !== "") lines.push(statement);
  lines.push(
    "",
    `URI: ${uri}`,
    `Version: ${version}`,
    `Chain ID: ${chainId.slice("eip155:".length)}`,
    `Nonce: ${nonce}`,
    `Issued At: ${issuedAt}`,
  );
  if (expirationTime) lines.push(`Expiration Time: ${expirationTime}`);
  if (notBefore) lines.push(`Not Before: ${notBefore}`);
  if (requestId) lines.push(`Request ID: ${requestId}`);
  if (resources) lines.push("Resources:", ...resources.map((resource) => `- ${resource}`));
  return lines.join("\n");
}

/** EIP-191, version 0x45: what `personal_sign` signs. */
export function personalDigest(message: string): Hex {
  aText(message, "message");
  const bytes = utf8ToBytes(message);
  return keccak256(concatBytes(utf8ToBytes(`\x19Ethereum Signed Message:\n${bytes.length}`), bytes));
}

/** The payer's EIP-2612 permit, as the extension `eip2612GasSponsoring` carries it. */
export const gasSponsoringInfoSchema = z.object({
  from: addressSchema,
  asset: addressSchema,
  spender: addressSchema,
  amount: amountSchema,
  nonce: amountSchema,
  deadline: amountSchema,
  signature: signature65Schema.refine(isLowS, "must have a low s"),
});
