/**
 * The ways in which a payer authorizes a transfer, and what differs between them on the wire and in what is signed.
 * What a gate and an agent do by each is in their `methods`.
 */
import * as z from "zod";
import type { Address } from "./address";
import type { TypedData } from "./eip712";
import { type Hex, hexToBytes, wordOfAddress, wordOfUint } from "./hex";
import { type PaymentKey, paymentIdOf } from "./ids";
import {
  EIP2612_GAS_SPONSORING,
  isPermit2,
  PERMIT2,
  type Permit2Authorization,
  permit2AuthorizationOf,
  permit2NonceOf,
  permit2PaymentIdOf,
  permit2TypedData,
  proxiedPayloadSchema,
  proxyOf,
  uptoPayloadSchema,
} from "./permit2";
import { authorizationSchema, otherMethodSchema, signatureSchema, signedPaymentSchema } from "./schemas";
import type { TransferAuthorization } from "./typed-data";

/**
 * How a one-time payment moves. `eip3009`: the token's own authorization. `permit2`: the scheme `exact` over Permit2.
 * `upto`: over Permit2, any amount up to the signed one.
 */
export const PAYMENT_METHODS = ["eip3009", "permit2", "upto"] as const;

/** One of {@link PAYMENT_METHODS}. */
export type PaymentMethod = (typeof PAYMENT_METHODS)[number];

/** `exact` payload of stock x402 clients; version 1 names scheme and network beside it. */
export const exactPayloadSchema = z.object({
  signature: signatureSchema,
  authorization: authorizationSchema,
  permit2Authorization: otherMethodSchema,
});

export const x402V1PayloadSchema = z.object({
  x402Version: z.literal(1),
  scheme: z.literal("exact"),
  network: signedPaymentSchema.shape.network,
  payload: exactPayloadSchema,
});

export type X402V1Payload = z.output<typeof x402V1PayloadSchema>;

type Extra = { readonly [key: string]: unknown } | null | undefined;

/** Returns whether an option asks for an EIP-3009 transfer, the only kind that is settled; absent means EIP-3009. */
export function isEip3009(extra: Extra): boolean {
  const method = extra?.assetTransferMethod;
  return method === undefined || method === "eip3009";
}

/** Which word of the chain shows that a nonce is used. */
export interface NonceView {
  readonly to: Address;
  readonly view: string;
  /** 32 bytes each */
  readonly words: readonly Uint8Array[];
  isUsed(word: bigint): boolean;
}

/** The contract that moves a payment, where the payer has to approve it first. */
export interface Approved {
  readonly title: string;
  /** name of the extension by which a payer without gas approves it */
  readonly sponsoring: string;
  /** the error of a server whose payer has not: presenting the payment again changes nothing */
  readonly refusal: string;
}

export interface TransferMethod {
  readonly name: TransferMethodName;
  /** what an entry says of it */
  readonly extra: Readonly<Record<string, string>>;
  /** absent: the token itself moves the payment, by a signature under its own EIP-712 domain */
  readonly approved?: Approved;
  isNamedIn(extra: Extra): boolean;
  paymentIdOf(key: PaymentKey): Hex;
  nonceView(key: Omit<PaymentKey, "chainId">): NonceView;
}

/** How a token moves one-time payments: by its own EIP-3009 authorizations (default), or over Permit2. */
export type TransferMethodName = Exclude<PaymentMethod, "upto">;

/** By the name that the option of a gate and `extra.assetTransferMethod` have for it. */
export const TRANSFER_METHODS: Readonly<Record<TransferMethodName, TransferMethod>> = {
  eip3009: {
    name: "eip3009",
    extra: {},
    isNamedIn: isEip3009,
    paymentIdOf,
    nonceView: ({ token, payer, nonce }) => ({
      to: token,
      view: "authorizationState(address,bytes32)",
      words: [wordOfAddress(payer), hexToBytes(nonce)],
      isUsed: (word) => word !== 0n,
    }),
  },
  permit2: {
    name: "permit2",
    extra: { assetTransferMethod: "permit2" },
    approved: {
      title: "Permit2",
      sponsoring: EIP2612_GAS_SPONSORING,
      refusal: "permit2_allowance_required",
    },
    isNamedIn: isPermit2,
    paymentIdOf: permit2PaymentIdOf,
    // 256 nonces in one word: the last byte is the bit's place in it.
    nonceView: ({ payer, nonce }) => ({
      to: PERMIT2,
      view: "nonceBitmap(address,uint256)",
      words: [wordOfAddress(payer), wordOfUint(BigInt(nonce) >> 8n)],
      isUsed: (word) => ((word >> (BigInt(nonce) & 0xffn)) & 1n) === 1n,
    }),
  },
};

/** The method's own name, or `upto`. */
export const transferMethodOf = (method: PaymentMethod): TransferMethod =>
  TRANSFER_METHODS[method === "upto" ? "permit2" : method];

/** Returns how an entry's payment moves; undefined for a transfer method that is not known. */
export function paymentMethodOf(scheme: "exact" | "upto", extra: Extra): PaymentMethod | undefined {
  // `upto` has no other transfer method, so an entry may leave it out.
  if (scheme === "upto") return isPermit2(extra) || extra?.assetTransferMethod === undefined ? "upto" : undefined;
  return Object.values(TRANSFER_METHODS).find(({ isNamedIn }) => isNamedIn(extra))?.name;
}

/** What a payload presents, whatever its method. */
export interface PresentedTransfer {
  readonly method: PaymentMethod;
  /** of `upto`, `value` is the most that may be charged */
  readonly authorization: TransferAuthorization;
  /** of `upto`: the only account that may settle it */
  readonly settler?: Address | undefined;
}

/** @throws ZodError for a payload of no method */
export function presentedIn(payload: unknown): PresentedTransfer {
  const read = z.union([exactPayloadSchema, uptoPayloadSchema, proxiedPayloadSchema]).parse(payload);
  if (read.authorization) return { method: "eip3009", authorization: read.authorization };
  return proxiedTransferOf(permit2AuthorizationOf(read));
}

/** Returns an authorization of a proxy's transfer in the terms of the others. */
export function proxiedTransferOf(signed: Permit2Authorization): PresentedTransfer {
  const { from, to, amount: value, deadline, validAfter, nonce, facilitator: settler } = signed;
  // Its deadline is inclusive.
  const authorization = { from, to, value, validAfter, validBefore: deadline + 1n, nonce: permit2NonceOf(nonce) };
  return { method: settler ? "upto" : "permit2", authorization, settler };
}

/** What a payer signs of a proxy's transfer, and the payload that bears the signature. */
export interface ProxiedTransfer {
  readonly typedData: TypedData;
  payload(signature: Hex): Readonly<Record<string, unknown>>;
}

/** Prepares a transfer through a proxy; with a facilitator it is one of the scheme `upto`. */
export function proxiedTransfer(
  chainId: number,
  terms: Omit<Permit2Authorization, "spender" | "validAfter">,
): ProxiedTransfer {
  const { from, token, amount, nonce, deadline, to, facilitator } = terms;
  const spender = proxyOf(facilitator ? "upto" : "permit2");
  const typedData = permit2TypedData(chainId, { ...terms, spender, validAfter: 0n });
  const permit2Authorization = {
    from,
    permitted: { token, amount: `${amount}` },
    spender,
    nonce: `${nonce}`,
    deadline: `${deadline}`,
    witness: { to, ...(facilitator && { facilitator }), validAfter: "0" },
  };
  return {
    typedData,
    payload: (signature) => ({ signature, permit2Authorization }),
  };
}
