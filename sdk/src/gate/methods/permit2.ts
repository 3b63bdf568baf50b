/** Transfers over Permit2, through the proxies of x402: the scheme `exact` for tokens without EIP-3009, and `upto`. */
import { findPermit2Settlement } from "../../chain/proxy-calls";
import { payloadProxiedSchema, payloadUptoSchema } from "../../facilitator/x402";
import {
  EIP2612_GAS_SPONSORING,
  type Hex,
  type JsonObject,
  type Permit2Authorization,
  type Permit2Method,
  permit2AuthorizationOf,
  permit2PaymentIdOf,
  permit2TypedData,
  proxyOf,
  typedDataDigest,
} from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { proxiedTransferOf, TRANSFER_METHODS } from "../../protocol/transfer-methods";
import { type Method, parsed, type SchemeName, type SignedTransfer, schemeAsked } from "./method";

/** Returns whether what was signed is a transfer of this method. */
export const isOverPermit2 = (signed: unknown): boolean =>
  isObject(signed) && "permit2Authorization" in signed && !("authorization" in signed);

const methodOf = (scheme: SchemeName): Permit2Method => (scheme === "upto" ? "upto" : "permit2");

function signedOver(signed: Permit2Authorization, signature: Hex, chainId: number): SignedTransfer {
  const { authorization, settler } = proxiedTransferOf(signed);
  const { from: payer, nonce } = authorization;
  const paymentId = permit2PaymentIdOf({ chainId, token: signed.token, payer, nonce });
  return { signature, authorization, paymentId, settler, digest: typedDataDigest(permit2TypedData(chainId, signed)) };
}

export const permit2: Method = {
  ...TRANSFER_METHODS.permit2,
  isOfVersion1: false,
  wayOut: 'sell it over Permit2 alone, by token.transferMethod: "permit2" (TURNPIKE_TOKEN_TRANSFER_METHOD)',
  bound: methodOf,
  termsIn(support, scheme) {
    if (!support) return undefined;
    const { methods, uptoSigner, sponsorsGas } = support;
    if (scheme === "upto") return uptoSigner && { facilitatorAddress: uptoSigner, sponsorsGas };
    return methods === undefined || methods.includes("permit2") ? { sponsorsGas } : undefined;
  },
  needs: (scheme) =>
    scheme === "upto"
      ? 'payments of type "upto" (its setting UPTO_SIGNER)'
      : "payments over Permit2 (its setting PERMIT2)",
  read(source) {
    const { accepted, resource, payload } =
      schemeAsked(source) === "upto" ? parsed(payloadUptoSchema, source) : parsed(payloadProxiedSchema, source);
    if (!this.isNamedIn(accepted.extra)) return "transfer_method";
    const authorization = permit2AuthorizationOf(payload);
    const { spender, token, to: payTo, amount: max, facilitator } = authorization;
    // By the witness that its payer signed, as the Facilitator goes by it.
    const scheme: SchemeName = facilitator ? "upto" : "exact";
    if (spender !== proxyOf(methodOf(scheme))) return "spender";
    if (token !== accepted.asset) return "terms";
    const signed = ({ chainId }: { readonly chainId: number }) => signedOver(authorization, payload.signature, chainId);
    return { scheme, accepted, resource, payTo, max, signed };
  },
  findSettlement: findPermit2Settlement,
};

/** The extension by which a payer without gas approves Permit2. */
export const GAS_SPONSORING: readonly [key: string, value: JsonObject] = [
  EIP2612_GAS_SPONSORING,
  {
    info: { description: "The payer may approve Permit2 by an EIP-2612 permit, and needs no gas.", version: "1" },
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      required: ["from", "asset", "spender", "amount", "nonce", "deadline", "signature", "version"],
    },
  },
];

/** Why a Facilitator refuses such payments, by its reason. */
export const PERMIT2_REFUSALS: Readonly<Record<string, string>> = {
  permit2_allowance_required:
    "Permit2 may not move the payer's tokens: approve it once, or send the token's permit with the payment, where the 402 has the extension eip2612GasSponsoring.",
};
