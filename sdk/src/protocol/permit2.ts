/**
 * Payments over Permit2, as the x402 schemes `exact` and `upto` have them: the contracts' addresses, what a payer signs,
 * and the payloads of stock clients.
 */
import * as z from "zod";
import type { Address } from "./address";
import { aNumber, fieldsOf } from "./arguments";
import type { TypedData, TypedDataField, TypedDataStruct } from "./eip712";
import { type Hex, keccak256, keccakText, toHex, WORD, wordOfUint, writeAddress, writeHash, writeUint } from "./hex";
import type { PaymentKey } from "./ids";
import { addressSchema, amountSchema, otherMethodSchema, signatureSchema } from "./schemas";

/** Permit2, at the same address on every chain. */
export const PERMIT2: Address = "0x000000000022D473030F116dDEE9F6B43aC78BA3";

/** The proxy that moves `exact` payments; anyone may call it. */
export const EXACT_PERMIT2_PROXY: Address = "0x402085c248EeA27D92E8b30b2C58ed07f9E20001";

/** The proxy that moves `upto` payments; only the facilitator that the payer signed may call it. */
export const UPTO_PERMIT2_PROXY: Address = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002";

/** How a payment moves over Permit2: by `exact` in its full amount, or by `upto` in what is charged of its maximum. */
export type Permit2Method = "permit2" | "upto";

/** Returns the proxy that moves such payments. */
export const proxyOf = (method: Permit2Method): Address =>
  method === "permit2" ? EXACT_PERMIT2_PROXY : UPTO_PERMIT2_PROXY;

/** A signed transfer through one of the proxies. */
export interface Permit2Authorization {
  readonly from: Address;
  readonly token: Address;
  /** base units; `upto`: the most that may be charged */
  readonly amount: bigint;
  /** the proxy */
  readonly spender: Address;
  /** of Permit2's unordered nonces: any number below 2^256 */
  readonly nonce: bigint;
  /** unix seconds, inclusive */
  readonly deadline: bigint;
  /** the payee */
  readonly to: Address;
  /** unix seconds, inclusive */
  readonly validAfter: bigint;
  /** `upto` alone: the only account that may settle */
  readonly facilitator?: Address;
}

const uint = (name: string): TypedDataField => ({ name, type: "uint256" });

const address = (name: string): TypedDataField => ({ name, type: "address" });

const TOKEN_PERMISSIONS = [address("token"), uint("amount")];

const transferFields = (): readonly TypedDataField[] => [
  { name: "permitted", type: "TokenPermissions" },
  address("spender"),
  uint("nonce"),
  uint("deadline"),
  { name: "witness", type: "Witness" },
];

const EXACT_TYPES = {
  PermitWitnessTransferFrom: transferFields(),
  TokenPermissions: TOKEN_PERMISSIONS,
  Witness: [address("to"), uint("validAfter")],
};

const UPTO_TYPES = {
  PermitWitnessTransferFrom: transferFields(),
  TokenPermissions: TOKEN_PERMISSIONS,
  Witness: [address("to"), address("facilitator"), uint("validAfter")],
};

/** What a payer signs: a transfer through a proxy. With a facilitator it is one of the scheme `upto`. */
export function permit2TypedData(chainId: number, authorization: Permit2Authorization): TypedData {
  aNumber(chainId, "chainId");
  const { token, amount, spender, nonce, deadline, to, validAfter, facilitator } = fieldsOf(
    authorization,
    "authorization",
  );
  const witness: TypedDataStruct = facilitator ? { to, facilitator, validAfter } : { to, validAfter };
  return {
    domain: { name: "Permit2", chainId, verifyingContract: PERMIT2 },
    primaryType: "PermitWitnessTransferFrom",
    types: facilitator ? UPTO_TYPES : EXACT_TYPES,
    message: { permitted: { token, amount }, spender, nonce, deadline, witness },
  };
}

const PERMIT2_DOMAIN: Hex = keccakText("turnpike.payment.permit2");

/**
 * The id of a payment over Permit2: keccak256(abi.encode(keccak256("turnpike.payment.permit2"), chainId, token, payer,
 * nonce)). One word longer than `paymentIdOf` hashes, so no EIP-3009 payment has the same id.
 * @param key `nonce` is Permit2's, as 32 bytes
 */
export function permit2PaymentIdOf(key: PaymentKey): Hex {
  const { chainId, token, payer, nonce } = fieldsOf(key, "key");
  const words = new Uint8Array(5 * WORD);
  writeHash(words, 0, PERMIT2_DOMAIN);
  writeUint(words, WORD, chainId, "key.chainId");
  writeAddress(words, 2 * WORD, token, "key.token");
  writeAddress(words, 3 * WORD, payer, "key.payer");
  writeHash(words, 4 * WORD, nonce, "key.nonce");
  return keccak256(words);
}

/** A Permit2 nonce as 32 bytes. @see permit2PaymentIdOf */
export const permit2NonceOf = (nonce: bigint): Hex => toHex(wordOfUint(nonce));

const permittedSchema = z.object({ token: addressSchema, amount: amountSchema });

const transferShape = {
  from: addressSchema,
  permitted: permittedSchema,
  spender: addressSchema,
  nonce: amountSchema,
  deadline: amountSchema,
};

/** `exact` payload of stock x402 clients that goes through x402's proxy: over Permit2. */
export const proxiedPayloadSchema = z.object({
  signature: signatureSchema,
  authorization: otherMethodSchema,
  permit2Authorization: z.object({
    ...transferShape,
    witness: z.object({ to: addressSchema, validAfter: amountSchema }),
  }),
});

/** `upto` payload of stock x402 clients. */
export const uptoPayloadSchema = z.object({
  signature: signatureSchema,
  authorization: otherMethodSchema,
  permit2Authorization: z.object({
    ...transferShape,
    witness: z.object({ to: addressSchema, facilitator: addressSchema, validAfter: amountSchema }),
  }),
});

/** Returns the authorization of a payload. */
export function permit2AuthorizationOf(
  payload: z.output<typeof proxiedPayloadSchema> | z.output<typeof uptoPayloadSchema>,
): Permit2Authorization {
  const signed = fieldsOf(fieldsOf(payload, "payload").permit2Authorization, "payload.permit2Authorization");
  const { from, permitted, spender, nonce, deadline, witness } = signed;
  return { from, ...permitted, spender, nonce, deadline, ...witness };
}

/** Returns whether an option asks for a transfer over Permit2. */
export function isPermit2(extra: { readonly [key: string]: unknown } | null | undefined): boolean {
  return extra?.assetTransferMethod === "permit2";
}

/** Name of the extension by which a payer without gas approves Permit2. */
export const EIP2612_GAS_SPONSORING = "eip2612GasSponsoring";
